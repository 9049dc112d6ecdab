"""A PostgreSQL that tests may stop, kill and start again: for captures, which must survive it."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.demo.cluster import Cluster, binaries
from headwater.demo.cluster import create_database as empty_database
from tests.servers.postgres_releases import unpacked

__all__ = ["Cluster", "binaries", "empty_database", "running_cluster"]


@contextmanager
def running_cluster(release: str = "", **settings: str) -> Iterator[Cluster]:
    """A server of a release, the newest that is installed if none is named, in a folder of its own that is deleted
    afterwards. NotAvailable if it is not installed, and cannot be fetched."""
    found = binaries()
    folder = Path(tempfile.mkdtemp(prefix="headwater-cluster-"))
    cluster: Cluster | None = None
    try:
        folder.chmod(0o755)
        programs = found.get(release or next(iter(found))) or unpacked(release, folder / "programs")
        cluster = Cluster(programs, folder, settings)
        cluster.start()
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
