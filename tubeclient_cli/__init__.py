"""The command `tubeclient`: ready-made jobs and tools for the command line."""
