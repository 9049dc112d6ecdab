"""A small blocking Kafka client: what flows need to read topics, to write them once, and to show their lag."""
