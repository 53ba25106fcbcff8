"""Waits for a condition, as an author's tests do."""

from kopf_kit.testing.requests import BOUND, wait_until

__all__ = ["BOUND", "wait_until"]
