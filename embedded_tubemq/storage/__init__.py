"""A store's files, and all stores of a broker."""
