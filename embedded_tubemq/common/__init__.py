"""Shared by master, broker and stores: topics, codes, refusals, injected faults."""
