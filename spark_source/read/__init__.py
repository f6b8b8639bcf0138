"""What a task does: ranges to Arrow batches."""
