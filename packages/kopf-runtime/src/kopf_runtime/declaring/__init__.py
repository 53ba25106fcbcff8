"""The author's words: kinds, objects, conditions, settings, records and errors."""
