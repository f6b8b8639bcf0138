"""The planner, which holds a streaming query together, and batch reads."""
