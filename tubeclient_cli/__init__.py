"""The console command `tubeclient`: jobs for people who want rows in a table, not a program to write."""
