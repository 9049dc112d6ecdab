"""Runs that this process has mapped: each is verified once, when it is first needed.

A worker serves the same shards batch after batch. It keeps what it has opened, so that the checksum of a large run is
computed once per process, and a batch touches only the pages of the rows it looks up. Runs that the last versions it
worked on no longer name are let go: a file that was deleted takes space for as long as anybody has it mapped.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa

from headwater.flow.state.files import DiskFiles, StateFiles
from headwater.flow.state.manifest import RunInfo
from headwater.flow.state.runs.run import Run, open_run

RUNS_KEPT = 512
VERSIONS_KEPT = 2


class OpenedRuns:
    """The files of a store with those of its runs that are mapped. Any thread may use it."""

    def __init__(self, files: StateFiles, *, limit: int = RUNS_KEPT) -> None:
        self.files = files
        self._limit = limit
        self._lock = threading.Lock()
        self._runs: OrderedDict[tuple[str, int], Run] = OrderedDict()
        self._versions: deque[tuple[str, frozenset[str]]] = deque(maxlen=VERSIONS_KEPT)

    def run(self, info: RunInfo, schema: pa.Schema) -> Run:
        place = info.name, info.checksum
        with self._lock:
            run = self._runs.get(place)
            if run is not None:
                self._runs.move_to_end(place)
                return run
        run = open_run(self.files, info, schema)
        with self._lock:
            self._runs[place] = run
            while len(self._runs) > self._limit:
                # Readers still hold it; its memory is freed when the last of them is done.
                self._runs.popitem(last=False)
        return run

    def working_on(self, token: str, names: Iterable[str]) -> None:
        """Work begins on a version of which these are the runs."""
        with self._lock:
            if any(token == known for known, _ in self._versions):
                return
            self._versions.append((token, frozenset(names)))
            needed = frozenset().union(*(named for _, named in self._versions))
            for place in [place for place in self._runs if place[0] not in needed]:
                del self._runs[place]


def open_files(url: str) -> StateFiles:
    """The files at a place: a path of this machine, or the URL of a bucket."""
    if "://" not in url:
        return DiskFiles.at(url)
    if url.startswith("file://"):
        return DiskFiles.at(url.removeprefix("file://"))
    from headwater.flow.objects.retries import open_objects
    from headwater.flow.state.object_files import ObjectFiles

    return ObjectFiles(open_objects(url))


@lru_cache(maxsize=64)
def opened(url: str) -> OpenedRuns:
    """One for each place and process."""
    return OpenedRuns(open_files(url))
