"""Resolves expressions without Spark: names, types and casts, with Spark's rules."""
