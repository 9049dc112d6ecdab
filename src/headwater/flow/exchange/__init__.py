"""How rows travel from the tasks that make them to the tasks of their shards, and results to the driver."""
