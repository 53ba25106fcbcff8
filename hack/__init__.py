"""What only this repository needs: its demo, its site, and tests of its own tools."""
