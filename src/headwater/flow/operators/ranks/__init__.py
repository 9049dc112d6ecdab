"""Rows of a table in the order of their group: the first of them, their places, and those beside each."""
