"""The version of the plugin, and of the operator that it knows; `make generate` writes it."""

VERSION = "0.1.0"
