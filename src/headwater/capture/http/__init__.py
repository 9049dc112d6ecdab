"""What others post to the node over HTTP, as records: JSON, JSON lines, CloudEvents, signed webhooks."""
