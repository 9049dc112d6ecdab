"""Streams of events in a topic: appended under a condition, read by version (event_topic.py is the way in)."""
