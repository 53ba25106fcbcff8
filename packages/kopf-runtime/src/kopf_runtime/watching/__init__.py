"""The cluster's state: it is listed, watched, and cached as slim records."""
