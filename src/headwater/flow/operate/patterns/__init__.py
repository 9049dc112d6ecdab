"""Patterns as operators of a job."""
