"""Sketches: statistics in bounded memory with a known error, in the binary formats of Apache DataSketches."""
