"""Protobuf files: reading and writing their text, and whether one can read what another wrote."""
