"""Late rows: how they are told of, and how they are replayed."""
