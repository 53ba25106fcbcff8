"""From a queued key to the API server: queue, plan, observe, decide, act; and calls outside."""
