"""Tests of the benchmark, which are not about speed."""
