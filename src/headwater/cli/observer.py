"""What `headwater top` shows, gathered from a node and from the folders of jobs: one frame at a time."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.cli.client import Client as Admin
from headwater.cli.client import Group
from headwater.clock import Clock
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.run.figures import JobFigures, JobObserver, Places
from headwater.log.topic import INTERNAL
from headwater.record import TopicPartition


@dataclass(frozen=True)
class TopicFigures:
    name: str
    partitions: int
    records: int
    bytes: int | None
    """Known where the log's files are at hand."""
    per_second: float | None
    """Since the frame before; unknown in the first."""


@dataclass(frozen=True)
class GroupFigures:
    name: str
    state: str
    members: int
    lag: int


@dataclass(frozen=True)
class Frame:
    address: str
    time_ms: int
    topics: tuple[TopicFigures, ...]
    groups: tuple[GroupFigures, ...]
    jobs: tuple[JobFigures, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Observer:
    """Looks again and again; `data` is where the log's files and the folders of jobs are, if they are here."""

    def __init__(self, address: str, data: Path, *, local: bool, clock: Clock) -> None:
        self._address, self._data, self._local, self._clock = address, data, local, clock
        self._admin, self._client = Admin(address), Client(address)
        self._jobs = JobObserver(data, self._client, clock)
        self._before: tuple[int, dict[str, int]] | None = None

    def close(self) -> None:
        self._client.close()

    def look(self) -> Frame:
        counts = {name: count for name, count in self._client.topics().items() if name not in INTERNAL}
        partitions = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
        ends = self._client.offsets(dict.fromkeys(partitions, LATEST)) if partitions else {}
        firsts = self._client.offsets(dict.fromkeys(partitions, EARLIEST)) if partitions else {}
        topics = self._topics(counts, firsts, ends)
        groups = [self._group(group, ends) for group in self._admin.groups(self._admin.group_names())]
        jobs = self._jobs.look(ends)
        return Frame(self._address, self._clock.now_ms(), tuple(topics), tuple(groups), tuple(jobs))

    def _topics(self, counts: Mapping[str, int], firsts: Places, ends: Places) -> list[TopicFigures]:
        now_ms = self._clock.elapsed_ms()
        totals: dict[str, int] = dict.fromkeys(counts, 0)
        held = dict(totals)
        for partition, end in ends.items():
            totals[partition.topic] += end
            held[partition.topic] += end - firsts[partition]
        before_ms, before = self._before or (now_ms, {})
        self._before = now_ms, totals
        seconds = (now_ms - before_ms) / 1000
        return [
            TopicFigures(
                name,
                counts[name],
                held[name],
                self._bytes(name, counts[name]),
                (totals[name] - before[name]) / seconds if name in before and seconds > 0 else None,
            )
            for name in sorted(counts)
        ]

    def _bytes(self, topic: str, partitions: int) -> int | None:
        if not self._local:
            return None
        folders = (self._data / f"{topic}-{number}" for number in range(partitions))
        return sum(file.stat().st_size for folder in folders for file in folder.glob("*.log"))

    def _group(self, group: Group, ends: Places) -> GroupFigures:
        committed = self._admin.committed(group.name)
        lag = sum(max(0, ends.get(TopicPartition(*partition), 0) - offset) for partition, offset in committed.items())
        return GroupFigures(group.name, group.state, len(group.members), lag)
