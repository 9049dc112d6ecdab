"""A planned app as text and as pictures."""
