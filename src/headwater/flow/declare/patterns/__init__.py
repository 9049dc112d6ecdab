"""Patterns in streams, as users declare them."""
