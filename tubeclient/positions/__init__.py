"""Where partitions begin, end and stand."""
