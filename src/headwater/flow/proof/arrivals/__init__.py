"""Proofs of what depends on which rows were processed in one batch."""
