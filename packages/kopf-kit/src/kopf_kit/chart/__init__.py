"""The Helm chart: templates, values with schema and README, and the dashboard."""
