"""HTTP posts as records: JSON, JSON lines, CloudEvents, signed webhooks."""
