"""What the process serves: metrics, and the probes of its health."""
