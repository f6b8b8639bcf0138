"""`tubeclient offsets`: look at the positions of groups, and move them."""
