"""Topics and views as they change, over server-sent events and WebSockets."""
