"""Results as records of a topic, each batch once."""
