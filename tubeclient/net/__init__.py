"""Sockets, threads, real time and HTTP around the flows."""
