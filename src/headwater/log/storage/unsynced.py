"""Models which unsynced files and folders survive a power cut (pure).

    file      durable bytes + [write | truncate, ...]          until its sync
    folder    durable names + [create | rename | delete, ...]  until its sync

After a power cut each 512-byte sector of a file is one of its versions since the last sync, or, where the file had
grown, zeros. Its size is any size on the way from the durable one to the last. Of the changes of names in a folder any
are missing; a rename within one folder is one change. What was synced, content and name, is found exactly.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from headwater.log.storage.memory import Content, Folder, Node
from headwater.log.storage.storage import Buffer

SECTOR_BYTES = 512


class Change(NamedTuple):
    """Bytes written at a position; or, without data, the file was truncated (or extended by zeros) to it."""

    position: int
    data: bytes | None


class PowerCut:
    """The dice of one power cut. Some cuts keep nothing unsynced, some keep all of it, most are less kind."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._mood = random.choice(("none", "all", "mixed", "mixed", "mixed"))

    def style(self) -> str:
        return self.random.choice(("none", "all", "first", "any", "any")) if self._mood == "mixed" else self._mood

    def names_kept(self, changes: "list[dict[str, Node | None]]") -> "list[dict[str, Node | None]]":
        match self.style():
            case "none":
                return []
            case "all":
                return changes
            case "first":
                return changes[: self.random.randint(0, len(changes))]
            case _:
                return [change for change in changes if self.random.random() < 0.5]

    def content(self, durable: bytes, changes: list[Change]) -> bytes:
        """What is found of a file."""
        style = self.style() if changes else "none"
        if style == "none":
            return durable
        kept = changes
        if style == "first":
            kept = changes[: self.random.randint(0, len(changes))]
        sizes = sizes_on_the_way(len(durable), kept)
        if style == "any":
            image = self._any_versions(durable, kept, max(sizes))
            return image[: self._any_size(sizes)]
        return replay(durable, kept)

    def _any_size(self, sizes: list[int]) -> int:
        return self.random.choice((sizes[0], sizes[-1], self.random.randint(min(sizes), max(sizes))))

    def _any_versions(self, durable: bytes, changes: list[Change], size: int) -> bytes:
        versions = [sectors_touched(change, size) for change in changes]
        counts: dict[int, int] = {}
        for sectors in versions:
            for sector in sectors:
                counts[sector] = counts.get(sector, 0) + 1
        pick, between = self.random.choice, self.random.randint
        # How many of its changes each sector saw: versions come in order, but every sector stops where it likes.
        budget = {sector: pick((0, count, between(0, count))) for sector, count in counts.items()}
        image = bytearray(durable.ljust(size, b"\0"))
        for change, sectors in zip(changes, versions, strict=True):
            for sector in sectors:
                if budget[sector] > 0:
                    budget[sector] -= 1
                    apply(image, change, sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
        for sector in counts:
            if sector * SECTOR_BYTES >= len(durable) and self.random.random() < 0.05:
                begin, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, size)
                image[begin:end] = bytes(end - begin)
        return bytes(image)


def sizes_on_the_way(size: int, changes: Sequence[Change]) -> list[int]:
    sizes = [size]
    for change in changes:
        size = change.position if change.data is None else max(size, change.position + len(change.data))
        sizes.append(size)
    return sizes


def sectors_touched(change: Change, size: int) -> range:
    end = size if change.data is None else change.position + len(change.data)
    return range(change.position // SECTOR_BYTES, -(-end // SECTOR_BYTES))


def apply(image: bytearray, change: Change, begin: int, end: int) -> None:
    """Make a change, but only to the bytes from `begin` to `end`; the image keeps its size."""
    begin, end = max(begin, change.position), min(end, len(image))
    if change.data is None:
        image[begin:end] = bytes(max(0, end - begin))
    else:
        end = min(end, change.position + len(change.data))
        image[begin:end] = change.data[begin - change.position : end - change.position]


def replay(durable: bytes, changes: Sequence[Change]) -> bytes:
    content = Content(0)
    content.data += durable
    for change in changes:
        if change.data is None:
            content.truncate(change.position)
        else:
            content.write(change.position, change.data)
    return bytes(content.data)


class SimulatedContent(Content):
    def __init__(self, modified_ms: int, durable: bytes = b"") -> None:
        super().__init__(modified_ms)
        self.data += durable
        self.durable = durable
        self.durable_modified_ms = modified_ms
        self.pending: list[Change] = []
        self._lossy = False

    def write(self, position: int, buffer: Buffer) -> None:
        super().write(position, buffer)
        self.pending.append(Change(position, bytes(buffer)))

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self.pending.append(Change(size, None))

    def sync(self, changes: int) -> None:
        """The first changes of those pending are on disk: what was written while the sync ran is not promised."""
        if self._lossy:
            self.durable = self._written_back(self.pending[:changes])
        elif changes == len(self.pending):
            self.durable = bytes(self.data)
        else:
            self.durable = replay(self.durable, self.pending[:changes])
        self.durable_modified_ms = self.modified_ms
        self.pending = self.pending[changes:]

    def lose_sync(self, cut: PowerCut) -> None:
        self.durable = cut.content(self.durable, self.pending)
        self.pending = []
        self._lossy = True

    def _written_back(self, changes: list[Change]) -> bytes:
        """What a sync leaves once one has failed: only sectors changed since then reach the disk."""
        image = bytearray(self.durable[: len(self.data)].ljust(len(self.data), b"\0"))
        for change in changes:
            for sector in sectors_touched(change, len(image)):
                begin = sector * SECTOR_BYTES
                image[begin : begin + SECTOR_BYTES] = self.data[begin : begin + SECTOR_BYTES]
        return bytes(image)

    def damage(self, position: int, data: bytes) -> None:
        """Corrupt bytes silently, on the disk and in memory."""
        with self.lock:
            self.data[position : position + len(data)] = data
        if position < len(self.durable):
            self.durable = self.durable[:position] + data + self.durable[position + len(data) :]

    def after_cut(self, cut: PowerCut) -> "SimulatedContent":
        modified_ms = cut.random.choice((self.modified_ms, self.durable_modified_ms))
        return SimulatedContent(modified_ms, cut.content(self.durable, self.pending))

    def after_kill(self) -> "SimulatedContent":
        copy = SimulatedContent(self.modified_ms, self.durable)
        copy.durable_modified_ms, copy._lossy = self.durable_modified_ms, self._lossy
        copy.data, copy.pending = bytearray(self.data), self.pending.copy()
        return copy


class SimulatedFolder(Folder):
    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[str, Node] = {}
        self.pending: list[dict[str, Node | None]] = []

    def change(self, entries: Mapping[str, Node | None]) -> None:
        super().change(entries)
        self.pending.append(dict(entries))

    def sync(self, changes: int) -> None:
        """The first changes of those pending are on disk."""
        self.durable = with_changes(self.durable, self.pending[:changes])
        self.pending = self.pending[changes:]

    def fail_sync(self, cut: PowerCut) -> None:
        """Any of the changes may be on disk; all of them are still to be written, as a journal would."""
        self.durable = with_changes(self.durable, cut.names_kept(self.pending))

    def after_cut(self, cut: PowerCut) -> "SimulatedFolder":
        copy = SimulatedFolder()
        # Two names for one file can only come from half a rename between folders: they are two files from here on.
        for name, node in with_changes(self.durable, cut.names_kept(self.pending)).items():
            assert isinstance(node, SimulatedContent | SimulatedFolder)
            copy.durable[name] = node.after_cut(cut)
        copy.entries = dict(copy.durable)
        return copy

    def after_kill(self) -> "SimulatedFolder":
        return _copy(self, {})


def with_changes(names: Mapping[str, Node], changes: Sequence[Mapping[str, Node | None]]) -> dict[str, Node]:
    result: dict[str, Node | None] = dict(names)
    for change in changes:
        result.update(change)
    return {name: node for name, node in result.items() if node is not None}


def _copy(folder: SimulatedFolder, copies: dict[int, Node]) -> SimulatedFolder:
    fresh = copies[id(folder)] = SimulatedFolder()

    def copied(node: Node) -> Node:
        if id(node) not in copies:
            copies[id(node)] = _copy(node, copies) if isinstance(node, SimulatedFolder) else _kept(node)
        return copies[id(node)]

    fresh.entries = {name: copied(node) for name, node in folder.entries.items()}
    fresh.durable = {name: copied(node) for name, node in folder.durable.items()}
    fresh.pending = [{name: node and copied(node) for name, node in change.items()} for change in folder.pending]
    return fresh


def _kept(node: Node) -> SimulatedContent:
    assert isinstance(node, SimulatedContent)
    return node.after_kill()
