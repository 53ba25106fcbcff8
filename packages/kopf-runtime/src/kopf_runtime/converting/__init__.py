"""Conversion of objects between the versions of a kind."""
