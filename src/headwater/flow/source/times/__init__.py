"""When a record happened, and how far its producers have come."""
