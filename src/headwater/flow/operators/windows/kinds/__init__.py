"""One module for each kind of window."""
