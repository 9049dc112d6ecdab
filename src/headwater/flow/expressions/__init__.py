"""Spark's column expressions, evaluated on Arrow by the task that reads the rows."""
