"""Alerts: rows of views about which targets are notified."""
