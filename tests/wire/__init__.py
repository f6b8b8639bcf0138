"""Tests of the wire layer: bytes, names and errors; no sockets."""
