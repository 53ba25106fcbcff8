"""What the Operator Lifecycle Manager takes: bundle, catalog, manifests, and the rules for them."""
