"""The HTTP port: API, live subscriptions, dashboard."""
