"""Aggregates whose state merges: reduced before the exchange, merged with state after it."""
