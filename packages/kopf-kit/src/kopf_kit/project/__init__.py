"""What a repository is: its PROJECT, what its code declares, and its rights."""
