"""Runs the tiers of tests/tiers.toml for `kopf-kit check`, `test` and `test-all`.

tier     reads the file: what each tier is, and its command
lanes    runs tiers, each lane in its order and the lanes side by side; keeps which of them passed
"""
