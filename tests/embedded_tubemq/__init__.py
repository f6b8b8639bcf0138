"""Tests of the embedded TubeMQ."""
