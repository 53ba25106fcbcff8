"""What a release publishes: images, charts, files, signatures, and the words about it."""
