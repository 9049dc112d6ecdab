"""Alerts: rows of views that somebody must be told of, and how they are told."""
