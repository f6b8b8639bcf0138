"""Spark's Python Data Source API for TubeMQ: options, offsets, planning, Arrow batches. Knows neither sockets nor
Delta tables."""
