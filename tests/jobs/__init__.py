"""Tests of the console command, the scripts and their settings."""
