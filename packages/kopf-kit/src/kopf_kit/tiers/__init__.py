"""Runs the tiers of tests/tiers.toml for `kopf-kit check`, `test` and `test-all`."""
