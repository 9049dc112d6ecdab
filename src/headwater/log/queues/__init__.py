"""Queues on the log: messages of a topic, each delivered to one consumer and acknowledged by itself."""
