"""CustomResourceDefinitions: made of classes, judged, and compared with the last ones."""
