"""Windows over event time as pure functions: what Spark reduced, and what a shard keeps, to the changes of results."""
