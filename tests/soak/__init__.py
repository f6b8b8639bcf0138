"""The whole under an even load for an hour: what grows, and whether each record came once."""
