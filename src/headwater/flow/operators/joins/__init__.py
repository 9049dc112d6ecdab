"""Rows of two inputs that belong together (pure but for the state that is looked up and written)."""
