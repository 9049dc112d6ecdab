"""Webhooks that are sent: signed, bounded in time, and never to an address they were not meant for."""
