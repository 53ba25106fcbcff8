"""What people are told: status, readiness, Events, troubles and log lines."""
