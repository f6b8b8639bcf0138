"""Spark's Python Data Source API for TubeMQ: options, offsets, planning, Arrow batches. Contains no socket and no Delta
code."""
