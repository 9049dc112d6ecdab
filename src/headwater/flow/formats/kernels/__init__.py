"""Compiled loops from text and bytes to typed cells and columns."""
