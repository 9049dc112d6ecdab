"""Runs: sorted files of a shard, how they are read, searched and merged."""
