"""The index of aborted and open transactions of a partition, beside its segments. Rebuilt from them if it is lost.

`transactions.json`, a small file with a copy beside it (small_file.py):

    end       offset up to which it covers the log
    open      rows of [producer id, epoch, first offset, first timestamp]: no marker below `end`
    aborted   rows of [producer id, first offset, offset of the marker, last stable offset after it]

It is written before a checkpoint, if transactions were opened or aborted since; the checkpoint names its version, so
that one that is lost, or older, is noticed. A start reads the log after the checkpoint in any case, and adds what it
finds there; where damage or a missing segment may have held a marker, what was open before it counts as aborted. The
file belongs to the partition, not to a segment: sealing, compaction and the archive do not touch it. Rows of what
retention deleted, and of what compaction has removed altogether, go with the next writing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from headwater.errors import DamagedFile
from headwater.log.batch_format import BatchHeader
from headwater.log.checkpoint import Say
from headwater.log.segment import Segment
from headwater.log.storage import Read, Storage, read_small_file, write_small_file
from headwater.log.transactions.markers import Marker, read_marker
from headwater.log.transactions.open_transactions import OpenTransactions, TransactionRows

NAME = "transactions.json"


class AbortedIndex:
    """Not thread-safe; the partition writes it with its checkpoints."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage, self.path = storage, f"{directory}/{NAME}"
        self.version, self.end = 0, 0
        self.state: OpenTransactions | None = OpenTransactions()
        """As found; None if it was lost and has to be rebuilt."""
        self._written: dict[str, Any] | None = None

    @classmethod
    def read(
        cls, storage: Storage, directory: str, *, version: int, say: Say, read: Read = read_small_file
    ) -> "AbortedIndex":
        """`version` is what the checkpoint names: an older file, or none, is not believed."""
        index = cls(storage, directory)
        why = "is missing"
        try:
            found = read(storage, index.path)
            index.state, index.end = OpenTransactions.from_rows(found.content), int(found.content["end"])
            index.version, index._written = found.version, _rows(found.content)
            for problem in found.problems:
                say(problem)
            why = f"is version {found.version} instead of {version}"
        except FileNotFoundError:
            pass
        except DamagedFile as error:
            why = f"cannot be read: {error.why}"
        except (KeyError, TypeError, ValueError):
            why = "is not what was written"
        if index.version < version:
            say(f"{index.path} {why}; it is made again from the log")
            index.version, index.end, index.state, index._written = version, 0, None, None
        return index

    def write(self, rows: TransactionRows, *, end: int) -> None:
        """Write it down as it was when the log ended at `end`, if that differs from what is there."""
        if rows == self._written or not (self.version or rows["open"] or rows["aborted"]):
            return
        self.version = write_small_file(self._storage, self.path, {"end": end, **rows}, above=self.version)
        self._written = rows


def _rows(content: dict[str, Any]) -> dict[str, Any]:
    return {"open": content["open"], "aborted": content["aborted"]}


class Lost(NamedTuple):
    """Offsets that were stored and cannot be read."""

    first_offset: int
    end_offset: int


def replay(state: OpenTransactions, batches: Iterable[tuple[BatchHeader, Marker | None]], lost: Sequence[Lost]) -> None:
    """Note batches in their order, and in between what is lost. A marker that cannot be read is lost too."""
    left = sorted(lost, reverse=True)
    for header, marker in batches:
        while left and left[-1].first_offset <= header.base_offset:
            state.lose(*left.pop())
        if header.transactional and header.control and marker is None:
            state.lose(header.base_offset, header.next_offset)
        state.note(header, marker)
    while left:
        state.lose(*left.pop())


def rebuilt(segments: Iterable[Segment], lost: Iterable[Lost], *, until: int) -> OpenTransactions:
    """From the headers of all batches below an offset, and the markers among them."""
    state = OpenTransactions()
    replay(state, _transactional(segments, until), [one for one in lost if one.first_offset < until])
    return state


def _transactional(segments: Iterable[Segment], until: int) -> Iterator[tuple[BatchHeader, Marker | None]]:
    for segment in segments:
        for batch in segment.batches(0, limit=segment.size):
            header = batch.header
            if header.base_offset >= until:
                return
            if header.transactional:
                yield header, read_marker(header, segment.read_batch(batch)) if header.control else None
