"""The reference of patterns: what a plain search finds."""
