"""Avro schemas: reading them, and whether one can read what another wrote."""
