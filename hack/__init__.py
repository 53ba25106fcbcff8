"""What only this repository needs: its demo, its site, its plugin, and tests of its own tools."""
