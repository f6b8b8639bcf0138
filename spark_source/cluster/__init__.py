"""The group's nodes at the master, and lookups at the brokers, with `tubeclient`."""
