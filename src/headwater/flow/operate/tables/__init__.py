"""Operators that keep a table made of tables."""
