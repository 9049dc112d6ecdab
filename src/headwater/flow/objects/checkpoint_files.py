"""Files of an operator's state, as the driver sees them: manifests are named by the checkpoint's head, runs lie beside.

A manifest is an object of its own under a name that no other has; the head says which one is that of a version. So
a version is committed with the head, and a driver that has lost the job commits none.
"""

from collections.abc import Iterable
from uuid import uuid4

import pyarrow as pa

from headwater.flow.objects.checkpoint import Checkpoint
from headwater.flow.state.files import StateFiles, StateWriter, StoredFile
from headwater.flow.state.manifest import VERSIONS

OBJECT, BYTES = "object", "bytes"


class CheckpointFiles:
    def __init__(self, checkpoint: Checkpoint, folder: str, runs: StateFiles) -> None:
        """`runs` are the files at the same place, without manifests."""
        self.url = f"{checkpoint.url}/{folder}"
        self._checkpoint, self._folder, self._runs = checkpoint, folder, runs

    def create(self, path: str) -> StateWriter:
        return self._runs.create(path)

    def map(self, path: str) -> pa.Buffer:
        return self._runs.map(path)

    def forget(self, path: str) -> bool:
        return self._runs.forget(path)

    def replace(self, path: str, content: bytes) -> None:
        before = self._entry(path)
        fresh = f"{self._folder}/{path.removesuffix('.json')}-{uuid4().hex}.json"
        self._checkpoint.objects.write(fresh, content)
        if before is not None:
            self._checkpoint.forget(f"{self._folder}/{path}", before[OBJECT])
        self._checkpoint.commit({f"{self._folder}/{path}": {OBJECT: fresh, BYTES: len(content)}})

    def read(self, path: str) -> bytes:
        entry = self._entry(path)
        if entry is None and not path.startswith(f"{VERSIONS}/"):
            return self._runs.read(path)
        if entry is None:
            raise FileNotFoundError(path)
        return self._checkpoint.objects.read(entry[OBJECT])

    def times(self, folder: str) -> list[StoredFile]:
        """By a list of the place, where it has them."""
        if folder != VERSIONS:
            return self._runs.times(folder)
        listed = {one.name: one.modified_ms for one in self._checkpoint.objects.list(f"{self._folder}/{VERSIONS}")}
        return [one._replace(modified_ms=listed.get(self._object(one.name), 0)) for one in self.list(folder)]

    def delete(self, paths: Iterable[str]) -> None:
        runs = []
        for path in paths:
            entry = self._entry(path)
            if entry is not None:
                self._checkpoint.forget(f"{self._folder}/{path}", entry[OBJECT])
            elif not path.startswith(f"{VERSIONS}/"):
                runs.append(path)
        self._checkpoint.commit({})
        self._runs.delete(runs)

    def _object(self, name: str) -> str:
        entry = self._entry(f"{VERSIONS}/{name}")
        return "" if entry is None else str(entry[OBJECT]).rpartition("/")[2]

    def _entry(self, path: str) -> dict[str, str] | None:
        found: dict[str, str] | None = self._checkpoint.read(f"{self._folder}/{path}")
        return found

    def list(self, folder: str) -> list[StoredFile]:
        """Of manifests, those that the head names."""
        if folder != VERSIONS:
            return self._runs.list(folder)
        names = self._checkpoint.names(f"{self._folder}/{VERSIONS}/")
        entries = {name.rpartition("/")[2]: self._checkpoint.read(name) for name in names}
        return [StoredFile(name, entry[BYTES], 0) for name, entry in entries.items()]
