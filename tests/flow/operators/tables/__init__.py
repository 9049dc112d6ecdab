"""Operators that are given tables, against SQLite's answer to the same question after every batch."""
