"""Kinds of aggregates beyond counting, adding and comparing: statistics, sketches, and those of users."""
