"""Windows beside earlier windows of the same key."""
