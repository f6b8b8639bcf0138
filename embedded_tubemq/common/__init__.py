"""Shared by master, broker and stores."""
