"""Stored queries that documents flow past: the language, the index of queries, and matching in bulk."""
