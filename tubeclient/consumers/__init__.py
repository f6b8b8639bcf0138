"""Consumers and the groups that they are in."""
