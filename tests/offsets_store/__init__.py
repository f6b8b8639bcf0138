"""Tests of the offsets table."""
