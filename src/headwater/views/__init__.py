"""Keyed tables in a database that people can query, each with the position of the log that it reflects."""
