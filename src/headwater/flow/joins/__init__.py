"""Tasks and inputs of joins."""
