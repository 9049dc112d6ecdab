"""Models that learn from windows, one after another."""
