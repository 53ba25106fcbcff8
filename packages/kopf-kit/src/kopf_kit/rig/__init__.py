"""Sets up a cluster on a bare machine: programs, images, a registry, kind, OLM."""
