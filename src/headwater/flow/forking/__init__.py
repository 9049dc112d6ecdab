"""Spark's Python processes, forked from one that has its imports done instead of started one by one."""
