"""The state of a slot: the WAL that the database keeps for it, its lag, and the limit."""

from collections import deque

from headwater.capture.postgresql.database import Database, SlotFacts
from headwater.capture.postgresql.setup import drop_slot
from headwater.capture.postgresql.wal_budget import AtLimit, Verdict, verdict_on
from headwater.capture.source import SourceStatus
from headwater.clock import Clock
from headwater.errors import SourceGap

LOOK_INTERVAL_MS = 1_000


class Lag:
    """For how long the oldest byte of the database's log has been waiting: by our own clock, whatever theirs says.

    >>> lag = Lag()
    >>> lag.see(100, at_ms=0); lag.see(250, at_ms=1_000)
    >>> [lag.seconds(reached, now_ms=3_000) for reached in (0, 100, 250)]
    [3.0, 2.0, 0.0]
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()

    def see(self, address: int, *, at_ms: int) -> None:
        """The database has written up to this address."""
        if not self._seen or address > self._seen[-1][0]:
            self._seen.append((address, at_ms))

    def seconds(self, reached: int, *, now_ms: int) -> float:
        while self._seen and self._seen[0][0] <= reached:
            self._seen.popleft()
        return (now_ms - self._seen[0][1]) / 1000 if self._seen else 0.0


class SlotWatch:
    """Looks at one slot once a second. At the limit it does what was declared, and says so with a SourceGap."""

    def __init__(
        self, database: Database, clock: Clock, *, capture: str, slot: str, limit: int | None, at_limit: AtLimit
    ) -> None:
        self._database, self._clock = database, clock
        self._capture, self._slot, self._limit, self._at_limit = capture, slot, limit, at_limit
        self._lag = Lag()
        self._looked_at_ms = -(10**9)
        self._pausing = False

    def look(self, status: SourceStatus, confirmed: int) -> None:
        """Records the state. SourceGap if the slot was deleted, or has to be."""
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._looked_at_ms < LOOK_INTERVAL_MS:
            return
        self._looked_at_ms = now_ms
        slot = self._database.slot(self._slot)
        if slot is None or slot.lost:
            raise SourceGap(
                f"replication slot {self._slot} was lost while it was read",
                f'Copy the tables again with "headwater capture snapshot {self._capture}".',
            )
        self._apply_limit(status, slot, confirmed, now_ms)

    def guard(self, status: SourceStatus) -> None:
        """The same while no capture reads the slot; one that does not exist keeps nothing."""
        slot = self._database.slot(self._slot)
        if slot is not None and not slot.lost:
            self._apply_limit(status, slot, 0, self._clock.elapsed_ms())

    def _apply_limit(self, status: SourceStatus, slot: SlotFacts, confirmed: int, now_ms: int) -> None:
        reached = max(confirmed, slot.confirmed)
        self._lag.see(slot.now, at_ms=now_ms)
        status.retained_bytes, status.lag_bytes = slot.retained, max(0, slot.now - reached)
        status.lag_seconds = self._lag.seconds(reached, now_ms=now_ms)
        verdict = verdict_on(slot.retained, self._limit, self._at_limit, pausing=self._pausing)
        self._pausing = status.pause_others = verdict is Verdict.PAUSE
        status.warning = "" if verdict is Verdict.FINE else f"the database keeps {slot.retained:,} bytes of WAL"
        if verdict is Verdict.DROP:
            self._give_up(slot.retained)

    def _give_up(self, retained: int) -> None:
        """As was asked for: better a gap that is known than a database without a disk."""
        drop_slot(self._database, self._slot)
        raise SourceGap(
            f"the database kept {retained:,} bytes of WAL for capture {self._capture}, more than "
            f"{self._limit:,} allowed: its replication slot was dropped",
            f'Changes are missing from here on. Copy the tables again with "headwater capture snapshot '
            f'{self._capture}".',
        )
