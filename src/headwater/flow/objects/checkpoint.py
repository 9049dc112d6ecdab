"""The checkpoint of a job in objects: small files, under one head that only the newest driver can replace.

    <url>/head.json                    who runs the job, and the small files that changed since the snapshot
    <url>/snapshots/000000000512-….json    the small files as they were; one object, which the head names
    <url>/state/<operator>/versions/…  manifests, which small files of the head name (checkpoint_files.py)
    <url>/state/<operator>/runs/…      runs, which manifests name

The head is sealed as every small file of ours (small_file.py):

    {"format": 1, "epoch": 7, "owner": "host-1, process 4711", "since_ms": …, "write": "9f…", "sequence": 41,
     "snapshot": "snapshots/…", "files": {"batches/12.json": {…}, "batches/2.json": null}}

A driver takes the job by writing a head with the next epoch, over the one that it has read. From then on all that
older drivers commit is refused, for what they would replace is not there any more. Each commit is one swap of the head:
it is there as a whole or not at all. Nothing that counts is found by a list.

After a swap without an answer it is not known whether it happened, or whether it will. The next commit looks, and
builds on what it finds, if that is of the same epoch.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from headwater.clock import Clock, SystemClock
from headwater.errors import JobRefused, JobTakenOver, StateDamaged, StateUnavailable
from headwater.flow.objects.objects import Objects, Overtaken
from headwater.small_file import seal, unseal
from headwater.views.mark import Epoch

_logger = logging.getLogger(__name__)

HEAD, SNAPSHOTS, FORMAT = "head.json", "snapshots", 1
HEAD_BYTES_MAX = 48 * 1024
"""Of the files in a head: what is more goes into a snapshot."""
ATTEMPTS = 20

Files = dict[str, Any]
"""Contents by name, as JSON; None for a file that is deleted."""


@dataclass(frozen=True)
class Head:
    epoch: int = 0
    owner: str = ""
    since_ms: int = 0
    write: str = ""
    """Unlike that of any other: so the same content is never there twice."""
    sequence: int = 0
    snapshot: str | None = None
    files: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        return seal(asdict(self), version=self.sequence)


class Checkpoint:
    """Opened to be read; `take` makes it this driver's. Any thread may use it."""

    def __init__(self, objects: Objects, job: str, *, clock: Clock | None = None) -> None:
        self.objects, self._job, self._clock = objects, job, clock or SystemClock()
        self._lock = threading.RLock()
        self._head, self._tag, self._files = Head(), "", Files()
        self._own = 0
        self._unsure = False
        """A swap had no answer."""
        self._seen_ms = 0
        """When the head was last known to be ours."""
        self._gathered: Files | None = None
        self._later: Files = {}
        self._doomed: list[str] = []
        self._read()

    @property
    def url(self) -> str:
        return self.objects.url

    @property
    def epoch(self) -> Epoch:
        """Of this driver."""
        return Epoch(self._own, self._head.owner, self._head.since_ms) if self._own else Epoch()

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        """None if there is no such file."""
        with self._lock:
            for files in (self._gathered, self._later):
                if files is not None and name in files:
                    return files[name]
            return self._files.get(name)

    def names(self, folder: str = "") -> list[str]:
        """The files in a folder, and in those below it."""
        with self._lock:
            shown = {**self._files, **self._later, **(self._gathered or {})}
        return sorted(name for name, content in shown.items() if name.startswith(folder) and content is not None)

    def refresh(self) -> None:
        """Read again what is there; JobTakenOver if another driver has the job by now."""
        with self._lock:
            self._read()
            self._check_own()

    def _read(self) -> bool:
        """Is there a checkpoint?"""
        for _ in range(ATTEMPTS):
            tagged = self.objects.tagged(HEAD)
            if tagged is None:
                return False
            head = self._parsed(tagged.content)
            try:
                base = {} if head.snapshot is None else self._snapshot(head.snapshot)
            except FileNotFoundError:
                continue  # it was replaced by a newer one while we read
            self._head, self._tag, self._unsure = head, tagged.tag, False
            self._files = _merged(base, head.files)
            return True
        raise StateUnavailable(f"{self.url}/{HEAD}", "the snapshot that it names is not there")

    def _parsed(self, content: bytes) -> Head:
        try:
            said, _ = unseal(content)
            if said["format"] != FORMAT:
                raise JobRefused(f"{self.url}/{HEAD} is of a newer release", "Run that one.")
            return Head(**said)
        except (ValueError, TypeError, KeyError) as error:
            raise StateDamaged(f"{self.url}/{HEAD}", str(error)) from None

    def _snapshot(self, path: str) -> Files:
        content = self.objects.read(path)
        try:
            files: Files = unseal(content)[0]
        except ValueError as error:
            raise StateDamaged(f"{self.url}/{path}", str(error)) from None
        return files

    # -- taking and keeping the job ------------------------------------------------------------------------------------

    def take(self, owner: str) -> None:
        """Make this process the driver of the job: what others commit from now on is refused."""
        with self._lock:
            for _ in range(ATTEMPTS):
                there = self._read()
                taken = replace(self._next({}), epoch=self._head.epoch + 1, owner=owner, since_ms=self._clock.now_ms())
                try:
                    self._tag = self.objects.swap(HEAD, taken.to_bytes(), self._tag if there else None)
                except Overtaken:
                    continue  # another driver was faster: it is the older one of us two
                self._head, self._own, self._unsure = taken, taken.epoch, False
                self._doomed += self._left_behind()
                return
            raise StateUnavailable(f"{self.url}/{HEAD}", "other drivers take the job all the time")

    def _left_behind(self) -> list[str]:
        """Snapshots that no head will ever name: a swap that names one has to come next after the head before it."""
        found = (f"{SNAPSHOTS}/{one.name}" for one in self.objects.list(SNAPSHOTS))
        numbered = [(int(number), path) for path in found if (number := path.split("/")[1].split("-")[0]).isdigit()]
        return [path for number, path in numbered if number <= self._head.sequence and path != self._head.snapshot]

    def check(self, *, every_ms: int = 0) -> None:
        """JobTakenOver if another driver has the job by now. Nobody is asked if it was known less than `every_ms` ago,
        counting the time that the process was stopped."""
        now_ms = self._clock.elapsed_ms()
        if self._seen_ms and now_ms - self._seen_ms < every_ms:
            return
        tagged = self.objects.tagged(HEAD)
        head = Head() if tagged is None else self._parsed(tagged.content)
        if head.epoch != self._own:
            raise JobTakenOver(self._job, head.owner or "nobody: its checkpoint was removed", head.since_ms)
        self._seen_ms = now_ms

    def _check_own(self) -> None:
        if self._head.epoch != self._own:
            raise JobTakenOver(self._job, self._head.owner, self._head.since_ms)

    # -- writing -------------------------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is committed within is there all at once, at the end."""
        with self._lock:
            self._gathered = {}
            try:
                yield
                gathered = self._gathered
            finally:
                self._gathered = None
            self.commit(gathered)

    def commit(self, changes: Mapping[str, Any]) -> None:
        """Change some files, for good, all or none. JobTakenOver if another driver has the job by now."""
        with self._lock:
            if self._gathered is not None:
                self._gathered.update(changes)
                return
            changes = {**self._later, **changes}
            if changes:
                self._commit(changes)
                self._later = {}
                self._delete_doomed()

    def forget(self, name: str, object: str) -> None:
        """Delete a file with the next commit, and after that the object that it names."""
        with self._lock:
            self._later[name] = None
            self._doomed.append(object)

    def clear(self) -> None:
        """Delete all files and what they name; the head stays, so that older drivers see that they are."""
        with self._lock:
            named = [one["object"] for one in self._files.values() if isinstance(one, dict) and "object" in one]
            self._doomed += named
            self.commit(dict.fromkeys(self._files))

    def _delete_doomed(self) -> None:
        try:
            self.objects.delete(self._doomed)
            self._doomed = []
        except StateUnavailable as error:
            _logger.warning("objects that nothing names any more are left for later: %s", error)

    def _commit(self, changes: Files) -> None:
        for _ in range(ATTEMPTS):
            if self._unsure:
                self._read()
            self._check_own()
            following = self._next(changes)
            asked_ms = self._clock.elapsed_ms()
            try:
                self._unsure = True
                tag = self.objects.swap(HEAD, following.to_bytes(), self._tag)
            except Overtaken:
                continue  # by another driver, or by a swap of our own that had no answer: the next look says which
            before, self._unsure, self._seen_ms = self._head.snapshot, False, asked_ms
            self._head, self._tag, self._files = following, tag, _merged(self._files, changes)
            if before is not None and before != following.snapshot:
                self._doomed.append(before)
            return
        raise StateUnavailable(f"{self.url}/{HEAD}", "it changes all the time")

    def _next(self, changes: Files) -> Head:
        head = replace(self._head, write=uuid4().hex, sequence=self._head.sequence + 1)
        head = replace(head, files={**head.files, **changes})
        if len(head.to_bytes()) <= HEAD_BYTES_MAX:
            return head
        path = f"{SNAPSHOTS}/{head.sequence:012d}-{head.write}.json"
        self.objects.write(path, seal(_merged(self._files, changes), version=head.sequence))
        return replace(head, snapshot=path, files={})


def _merged(files: Mapping[str, Any], changes: Mapping[str, Any]) -> Files:
    return {name: content for name, content in {**files, **changes}.items() if content is not None}
