"""GET /history: the figures of the overview over the last day, kept by the node.

One sample every half a minute, in a ring of a day: some hundred kilobytes, however long the node runs. A page that is
reopened shows all of it.

<data>/history.json   the samples as rows, with a checksum (small_file.py); written every five minutes and at the end

A node that is killed loses the last minutes of it, and one whose file is damaged begins again: nothing but a chart
depends on them.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.serve.answers import Asked
from headwater.serve.endpoints import Endpoint
from headwater.serve.operations import Operations
from headwater.small_file import seal, unseal

_logger = logging.getLogger(__name__)

EVERY_SECONDS = 30
SAMPLES_MAX = 24 * 60 * 60 // EVERY_SECONDS
SAMPLES_BETWEEN_WRITES = 10
FILE = "history.json"
DAY_MS = 24 * 60 * 60 * 1000
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["every_ms", "samples"],
    "properties": {
        "every_ms": {"type": "integer"},
        "samples": {
            "type": "array",
            "items": {"type": "object"},
            "description": "the oldest first, of one day at most",
        },
    },
}


class Figures(NamedTuple):
    """One sample of the overview's figures."""

    at_ms: int
    written: int
    """Records that were ever written, all topics together."""
    lag: int
    behind_seconds: float
    late: int
    poisoned: int


def figures(
    at_ms: int, written: int, groups: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]]
) -> Figures:
    """A record that cannot be decoded is poisoned once for its flow, however many outputs the flow has."""
    behind = [(flow.get("behind_us") or 0) / 1e6 for flow in flows if flow["running"]]
    totals = [[output["total"] for output in flow["outputs"]] for flow in flows]
    return Figures(
        at_ms,
        written,
        sum(group["lag"] for group in groups),
        max(behind, default=0.0),
        sum(total.get("late", 0) for flow in totals for total in flow),
        sum(max((total.get("poisoned", 0) for total in flow), default=0) for flow in totals),
    )


def read_samples(file: Path, now_ms: int) -> list[Figures]:
    """Returns the samples that a node saved within the last day; none if the file is damaged."""
    try:
        rows, _ = unseal(file.read_bytes())
        return [one for one in (Figures(*row) for row in rows) if now_ms - DAY_MS < one.at_ms <= now_ms]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        _logger.warning("the history of the dashboard begins again: %s: %s", file, error)
        return []


def write_samples(file: Path, samples: Iterable[Figures]) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_bytes(seal([list(one) for one in samples], version=1))
    fresh.replace(file)


class History:
    """`start` takes samples on a thread of its own until `stop`."""

    def __init__(self, log: Log, operations: Operations, data: Path) -> None:
        self._log, self._operations, self._clock = log, operations, log.clock
        self._file = data / FILE
        self._samples: deque[Figures] = deque(maxlen=SAMPLES_MAX)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def endpoint(self) -> Endpoint:
        return Endpoint(
            "/history", "Figures of the last day", self.answer, SCHEMA, tag="node", operation="history"
        )  # fmt: skip

    def start(self) -> None:
        self._samples.extend(read_samples(self._file, self._clock.now_ms()))
        self._thread = threading.Thread(target=self._run, name="headwater-history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def take(self) -> None:
        written = sum(one.high_watermark for one in self._log.partitions())
        now_ms = self._clock.now_ms()
        self._samples.append(figures(now_ms, written, self._operations.groups({}), self._operations.flows({})))

    def keep(self) -> None:
        write_samples(self._file, self._samples)

    def answer(self, asked: Asked) -> object:
        samples = list(self._samples)
        return {
            "every_ms": 1000 * EVERY_SECONDS,
            "samples": [
                {**one._asdict(), "rate": rate(before, one)}
                for before, one in zip([None, *samples], samples, strict=False)
            ],
        }

    def _run(self) -> None:
        failed, taken = _Once(), 0
        while not self._stopping.wait(EVERY_SECONDS):
            failed.run(self.take)
            taken += 1
            if taken % SAMPLES_BETWEEN_WRITES == 0:
                failed.run(self.keep)
        if self._samples:
            failed.run(self.keep)


def rate(before: Figures | None, now: Figures) -> float:
    """Records per second between two samples.

    >>> rate(Figures(0, 10, 0, 0, 0, 0), Figures(2_000, 50, 0, 0, 0, 0)), rate(None, Figures(0, 10, 0, 0, 0, 0))
    (20.0, 0.0)
    """
    if before is None or now.at_ms <= before.at_ms:
        return 0.0
    return max(0.0, (now.written - before.written) * 1000 / (now.at_ms - before.at_ms))


class _Once:
    """Runs work that may fail, and logs a failure once instead of at every attempt."""

    def __init__(self) -> None:
        self._failing = ""

    def run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (HeadwaterError, OSError, ValueError, KeyError) as error:
            said = f"{type(error).__name__}: {error}"
            if said != self._failing:
                _logger.warning("the history of the dashboard is not kept: %s", said)
            self._failing = said
        else:
            self._failing = ""
