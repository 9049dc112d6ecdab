"""What is said of tables: ranks, neighbours, set operations."""
