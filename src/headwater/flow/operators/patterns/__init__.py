"""Row pattern recognition: the pattern language, its compiled search, and what is kept for a key."""
