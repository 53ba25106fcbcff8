"""What people read: status, readiness, Events, troubles and log lines."""
