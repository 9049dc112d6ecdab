from headwater.capture.declaration import postgres, sqlite

__all__ = ["postgres", "sqlite"]
