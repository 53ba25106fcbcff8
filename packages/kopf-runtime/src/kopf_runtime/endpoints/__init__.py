"""What the process serves: metrics, the probes of its health, and webhooks."""
