"""Reads Spark's analysed plans."""
