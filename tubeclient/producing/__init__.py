"""Producers, and what they send."""
