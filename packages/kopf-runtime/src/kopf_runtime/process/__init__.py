"""The process: the manager with its controllers, and the Lease."""
