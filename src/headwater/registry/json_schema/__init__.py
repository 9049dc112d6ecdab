"""JSON Schema: reading it, and whether all that one admits is admitted by another."""
