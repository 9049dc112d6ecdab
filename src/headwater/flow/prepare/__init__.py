"""What is done to rows before they are sent to their shards: late rows, keys and their hashes, partial aggregation."""
