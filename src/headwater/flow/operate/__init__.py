"""What a task does with the rows of its shards: look up state, step, write runs, emit results."""
