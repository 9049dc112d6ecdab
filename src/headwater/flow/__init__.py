"""Pipelines on Spark: what a user declares, and how it runs over the log."""
