"""Reading tasks: ranges to Arrow batches."""
