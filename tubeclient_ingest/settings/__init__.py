"""What the user asked the job for, parsed once into values. Pure, but for the files that are read."""
