"""Grouped tables as operators of a job: from a declaration to what tasks do with the rows of a shard."""
