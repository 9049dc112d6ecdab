"""A PostgreSQL that tests may stop, kill and start again: for captures, which must survive it."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.demo.cluster import Cluster, binaries
from headwater.demo.cluster import create_database as empty_database

__all__ = ["Cluster", "binaries", "empty_database", "running_cluster"]


@contextmanager
def running_cluster(release: str = "", **settings: str) -> Iterator[Cluster]:
    """A server of a release, the newest if none is named, in a folder of its own that is gone afterwards."""
    found = binaries()
    folder = Path(tempfile.mkdtemp(prefix="headwater-cluster-"))
    cluster = Cluster(found[release or next(iter(found))], folder, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
        cluster.log.unlink(missing_ok=True)
