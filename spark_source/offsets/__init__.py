"""Offsets and sets of partitions as values, and what users write for them. Pure."""
