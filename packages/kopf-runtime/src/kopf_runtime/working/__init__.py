"""From a queued key to the API server: queue, plan, apply, and what is outside of it."""
