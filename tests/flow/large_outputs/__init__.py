"""Outputs as large as their input."""
