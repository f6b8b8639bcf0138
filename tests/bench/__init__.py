"""Tests of the benchmark code; they measure no speed."""
