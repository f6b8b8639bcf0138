"""The planner of a streaming query, and batch reads."""
