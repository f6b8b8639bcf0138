"""What records mean: their text as typed columns. Expressions of Spark, without I/O."""
