"""Scripts for spark-submit, and the demonstration. Not part of the installed package."""
