"""Views computed again from the log by plain queries, and compared."""
