"""Bytes of record values to typed Arrow columns: one decoder per format."""
