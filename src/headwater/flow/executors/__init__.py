"""Executors of Spark on other machines: what they are sent, what they are told, and whether they can do their work."""
