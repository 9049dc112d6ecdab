"""Running jobs: from a checked graph to batches that are processed once."""
