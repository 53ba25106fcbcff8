"""The operator's image: its Dockerfile, its contents, and the names of images."""
