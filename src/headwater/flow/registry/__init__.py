"""Schemas from a registry, ours or another with Confluent's interface: fetched, understood, used to decode."""
