"""What an EtcdCluster should have, without a cluster."""
