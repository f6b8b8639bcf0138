"""One table: looked at, made, and committed to, in the format that it has, by delta-rs, pyiceberg or Spark."""
