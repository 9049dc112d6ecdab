from headwater.capture.declaration import postgres

__all__ = ["postgres"]
