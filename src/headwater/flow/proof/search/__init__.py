"""The reference of streams that meet stored queries."""
