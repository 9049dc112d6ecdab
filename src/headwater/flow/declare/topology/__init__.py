"""The declared graph: nodes, the jobs they are put into, and the names these go by."""
