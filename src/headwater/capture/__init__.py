from headwater.capture.declaration import mariadb, postgres, sqlite

__all__ = ["mariadb", "postgres", "sqlite"]
