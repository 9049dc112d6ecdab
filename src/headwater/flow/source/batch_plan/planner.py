"""Asks the log how far it goes, and decides where the next batch ends (leading.py, commit_cuts.py, admission.py)."""

import threading
from contextlib import suppress

from headwater.clock import Clock, SystemClock
from headwater.errors import UnknownPartition, UnknownTopic
from headwater.flow.kafka.client import Client, End
from headwater.flow.source import positions
from headwater.flow.source.batch_plan.admission import FIRST_STEP_MS, Guess, Plan
from headwater.flow.source.batch_plan.batch_control import BatchControl, WakeupRequest, Watch, next_control
from headwater.flow.source.batch_plan.commit_cuts import CommitHistory
from headwater.flow.source.batch_plan.commit_history import CommitHistories
from headwater.flow.source.batch_plan.leading import ends_asked, plan_leading
from headwater.flow.source.batch_plan.log_terms import (
    UNKNOWN_TERMS,
    LogTerms,
    check_epoch_ends,
    check_ids,
    doubtful,
)
from headwater.flow.source.batch_plan.stream_times import StreamTimes
from headwater.flow.source.options import SourceOptions
from headwater.flow.source.reach import Reach
from headwater.record import TopicPartition
from headwater.views.barrier import read_barrier

DISCOVERY_MS = 30_000
"""How often new partitions of the topics are looked for."""
COMMIT_LOOKS_MAX, COMMIT_LOOK_SECONDS = 20, 0.05
"""For so long a read of all there is waits for a commit point after the last records; then it goes without these."""

Offsets = dict[TopicPartition, int]


class BatchPlanner:
    """Plans the batches of one source, one after the other. Not thread-safe; `stopping` ends every wait."""

    def __init__(
        self, options: SourceOptions, *, clock: Clock | None = None, stopping: threading.Event | None = None
    ) -> None:
        self._options, self._clock = options, clock or SystemClock()
        self._stopping = stopping or threading.Event()
        self._reach = Reach(options.address, options.data, stopping=self._stopping)
        self._partitions: list[TopicPartition] = []
        self._discovered_ms: int | None = None
        self._fixed_ends: Offsets | None = None
        self._guess: Guess | None = None
        self._watch = Watch()
        self._commits = CommitHistories()
        self._times = StreamTimes(options, stopping=self._stopping)
        self.latest: Offsets = {}
        """Where the partitions ended when the last batch was planned."""
        self.terms = UNKNOWN_TERMS
        """Of the log, when a batch was planned that reads something, or when one was checked."""

    def beginning(self) -> Offsets:
        """Where the first batch starts: as the options say, earliest unless they say otherwise."""

        def ask(client: Client) -> Offsets:
            return positions.resolve(client, self._options.starting, self._discovered(client), name="startingOffsets")

        return self._reach.ask(ask)

    def fix_ends(self) -> None:
        """From here on nothing is read that is not in the log now."""
        seen = self._reach.ask(self._ends)
        # A capture that has just written records is about to say whether a transaction ends with them.
        for _ in range(COMMIT_LOOKS_MAX):
            if all(history.covers(seen) for history in self._reach.ask(self._histories)):
                break
            if self._stopping.wait(COMMIT_LOOK_SECONDS):
                break
        self._fixed_ends = self._reach.ask(self._ends)

    def check(self, read: Offsets, terms: LogTerms) -> None:
        """TopicRecreated or LogTruncated if the log is not what it was under these terms, up to these offsets."""

        def ask(client: Client) -> None:
            self.terms = terms
            self._look_again(client, read)

        self._reach.ask(ask)

    def next(self, start: Offsets, *, rows_max: int | None, bytes_max: int | None) -> Plan:
        """The batch that starts here; it may be empty. TopicRecreated or LogTruncated if the log is not the one that
        was read up to there."""
        return self._reach.ask(lambda client: self._plan(client, start, rows_max, bytes_max))

    def control(self, before: BatchControl, start: Offsets, made: Plan, request: WakeupRequest) -> BatchControl:
        """What else is decided about the batch that was planned last, for a job that requests wakeups."""
        now = self._clock.elapsed_ms()
        self._watch.note(self.latest, now)
        return next_control(
            before,
            request,
            moved=frozenset(place for place, end in made.ends.items() if end > start.get(place, 0)),
            unread=frozenset(place for place, end in made.ends.items() if end < self.latest.get(place, end)),
            silent=self._watch.silent(request.idle_ms, now),
            left=made.left,
        )

    def wait(self, wait_ms: int) -> None:
        """Until a partition is longer than when the last batch was planned, or a capture has committed more, or the
        time is over."""

        def ask(client: Client) -> None:
            with suppress(UnknownTopic, UnknownPartition):  # the next plan says so, if it matters
                client.wait_beyond({**self.latest, **self._commits.ends}, wait_ms=wait_ms)
                return
            self._stopping.wait(wait_ms / 1000)

        self._reach.ask(ask)

    def close(self) -> None:
        self._times.close()
        self._reach.close()

    def _discovered(self, client: Client) -> list[TopicPartition]:
        now = self._clock.elapsed_ms()
        if self._discovered_ms is None or now - self._discovered_ms > DISCOVERY_MS:
            self._partitions = positions.places_of(client.partitions(self._options.topics))
            self._discovered_ms = now
        return self._partitions

    def _ends(self, client: Client) -> Offsets:
        return {place: end.offset for place, end in self._known_ends(client).items()}

    def _known_ends(self, client: Client) -> dict[TopicPartition, End]:
        return ends_asked(self._options.leading, self._discovered(client), client.ends)

    def _look_again(self, client: Client, read: Offsets) -> Offsets:
        """Where the partitions end, of topics that are the same as they were."""
        # In this order: a topic that is made again in between is taken for the old one now, and found out next time.
        ids = client.topic_ids(self._options.topics)
        check_ids(self.terms, ids)
        ends = self._known_ends(client)
        epochs = {place: end.epoch for place, end in ends.items()}
        former = doubtful(self.terms, epochs)
        if former:
            check_epoch_ends(read, client.epoch_ends(former))
        self.terms = LogTerms({**self.terms.ids, **ids}, {**self.terms.epochs, **epochs})
        return {place: end.offset for place, end in ends.items()}

    def _histories(self, client: Client) -> list[CommitHistory]:
        return self._commits.of(client, self._discovered(client))

    def _plan(self, client: Client, start: Offsets, rows_max: int | None, bytes_max: int | None) -> Plan:
        ends = self._ends(client)
        if any(end != start.get(place, 0) for place, end in ends.items()):
            ends = self._look_again(client, start)
        self.latest = ends
        histories = self._histories(client)
        ends = self._up_to_barrier(start, ends)
        if self._fixed_ends is not None:
            ends = {place: min(ends.get(place, end), end) for place, end in self._fixed_ends.items()}
        positions.check_reachable(start, ends)
        # A partition that was read and has left the topic's list for a moment must not be forgotten.
        ends = {**{place: offset for place, offset in start.items() if place not in ends}, **ends}
        limit = self._limit(client, start, ends, rows_max, bytes_max)
        at_time = self._times.lookup(client, start, ends, limit)
        guess = self._times.estimate(start, ends, limit) or self._guess
        made = self._times.settled(
            plan_leading(self._options.leading, start, ends, limit, at_time, histories, guess=guess)
        )
        if made.time_ms is not None:
            step = FIRST_STEP_MS if self._guess is None else made.time_ms - self._guess.time_ms
            self._guess = Guess(made.time_ms, max(1, step))
        return made

    def _up_to_barrier(self, start: Offsets, ends: Offsets) -> Offsets:
        """The same, but not beyond a barrier that lies before us: a read waits for a batch that ends there."""
        found = read_barrier(self._options.data, self._clock.now_ms()) if self._options.data is not None else None
        if found is None:
            return ends
        stops = {place: found.ends.get(place.topic, {}).get(place.partition, end) for place, end in ends.items()}
        if any(start.get(place, 0) > stop for place, stop in stops.items()) or all(
            start.get(place, 0) >= stop for place, stop in stops.items()
        ):
            return ends  # it was passed, or reached
        return {place: min(end, stops[place]) for place, end in ends.items()}

    def _limit(
        self, client: Client, start: Offsets, ends: Offsets, rows_max: int | None, bytes_max: int | None
    ) -> int | None:
        if bytes_max is None or ends == start or not ends:
            return rows_max
        by_size = max(1, int(bytes_max / positions.bytes_per_row(client, start, ends)))
        return by_size if rows_max is None else min(rows_max, by_size)
