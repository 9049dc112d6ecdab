"""Aggregates over tables: what is kept of rows that change and go, so that nothing has to be looked at twice (pure)."""
