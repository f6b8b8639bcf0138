"""Tests of `tubeclient audit`."""
