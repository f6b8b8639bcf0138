"""Offsets and sets of partitions as values, and their option texts. Pure."""
