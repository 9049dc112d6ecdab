"""Executors of Spark on other machines: what they are sent, what they are asked, and whether they can do their work."""
