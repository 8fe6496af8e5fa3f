"""Data sets by name, and a user's own files."""
