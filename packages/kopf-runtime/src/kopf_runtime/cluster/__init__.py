"""The API server: the client, its credentials and its fence, and what is measured of it."""
