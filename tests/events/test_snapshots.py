"""A snapshot is a shortcut: whatever is in it, the state is what the events say."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater.events as ev
from headwater.clock import ManualClock
from headwater.errors import DiskFull
from headwater.events.folding import fold
from headwater.events.snapshots import Snapshots
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from tests.crash.planting import plant


@dataclass
class Added:
    amount: int


@dataclass
class Noted:
    text: str


def counter(*, factor: int = 1, shift: int = 0, every: int = 3) -> type[ev.Aggregate]:
    """One of several versions of the code: `apply` multiplies, an upcaster shifts."""

    class Counter(ev.Aggregate):
        snapshot_every = every
        total: int = 0
        notes: list[str] = []  # noqa: RUF012 (each aggregate gets a copy)

        @ev.command
        def add(self, amount: int) -> Any:
            return Added(amount)

        @ev.command
        def try_out(self, amount: int, ms: int) -> Any:
            from datetime import timedelta

            return ev.tentative(Added(amount), within=timedelta(milliseconds=ms))

        @ev.command
        def confirm_all(self) -> Any:
            return [ev.Confirmed(one.id) for one in self.unconfirmed]

        @ev.command
        def note(self, text: str) -> Any:
            return [Noted(text), Noted(f"{self.total}")]

        @ev.apply
        def _(self, event: Added) -> None:
            self.total += event.amount

        @ev.apply
        def _(self, event: Noted) -> None:
            self.notes.append(event.text)

    if factor == 2:

        def doubled(self: Any, event: Added) -> None:
            self.total += 2 * event.amount

        Counter._definition.appliers = (*Counter._definition.appliers, doubled)
    if shift:
        Counter.upcasters = (ev.Upcast("Added", 1, lambda data: {"amount": data["amount"] + 1}),)
    return Counter


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(-9, 9)),
    st.tuples(st.just("try_out"), st.integers(-9, 9), st.integers(1, 50)),
    st.tuples(st.just("confirm_all")),
    st.tuples(st.just("note"), st.text(max_size=3)),
    st.tuples(st.just("advance"), st.integers(1, 30)),
    st.tuples(st.just("deploy"), st.integers(1, 2), st.integers(0, 1)),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_a_snapshot_and_the_rest_are_all_events_from_the_start(steps: list[tuple[Any, ...]]) -> None:
    assert differences(steps) == []


def differences(steps: list[tuple[Any, ...]]) -> list[str]:
    """Where the state by way of a snapshot is not that of a replay, for a life of commands and of changes of code."""
    clock = ManualClock()
    log = Log.open("data", storage=MemoryStorage(), clock=clock)
    store = ev.EventStore.on(log)
    kind, shift, found = counter(), 0, []
    for name, *said in steps:
        if name == "advance":
            clock.advance(said[0])
        elif name == "deploy":
            shift = max(shift, said[1])  # upcasters are never taken out again
            kind = counter(factor=said[0], shift=shift)
        else:
            arguments = dict(zip({"note": ["text"]}.get(name, ["amount", "ms"]), said, strict=False))
            store.handle(kind, "1", name, **arguments)
        loaded = store.load(kind, "1")
        replayed = fold(kind._definition, "1", list(store.events.read("Counter-1"))).state
        seen = [(one.version, vars(one)["total"], vars(one)["notes"], one.unconfirmed) for one in (loaded, replayed)]
        if seen[0] != seen[1]:
            found.append(f"{name}: {seen}")
    log.close()
    return found


@pytest.fixture
def store() -> ev.EventStore:
    store = ev.EventStore.on(Log.open("data", storage=MemoryStorage()))
    for amount in range(7):
        store.handle(counter(), "1", "add", amount=amount)
    return store


def read_versions(store: ev.EventStore, kind: type[ev.Aggregate], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the events that were read to load the aggregate."""
    versions: list[int] = []
    read = store.events.read

    def reading(stream: str, **asked: Any) -> Any:
        for event in read(stream, **asked):
            versions.append(event.version)
            yield event

    monkeypatch.setattr(store.events, "read", reading)
    assert store.load(kind, "1").__dict__["total"] in (21, 42)
    return versions


def test_only_what_comes_after_the_snapshot_is_read(store: ev.EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_versions(store, counter(), monkeypatch) == [6, 7]


def test_a_snapshot_of_other_code_is_left_aside(store: ev.EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_versions(store, counter(factor=2), monkeypatch) == [*range(1, 8)]


def rewritten(store: ev.EventStore, **changed: object) -> None:
    assert store._snapshots is not None
    storage = store._snapshots._storage
    newest = next(storage.read("Counter-1", backwards=True))
    data = json.dumps({**json.loads(newest.data), **changed}).encode()
    storage.append(ev.Append((ev.StreamWrite("Counter-1", [ev.NewEvent("Snapshot", data)]),)))


@pytest.mark.parametrize("changed", [{"state": {"total": 99, "notes": []}}, {"event_id": "another"}, {"hash": "0"}])
def test_a_snapshot_that_is_not_what_was_written_is_left_aside(
    store: ev.EventStore, changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten(store, **changed)
    assert read_versions(store, counter(), monkeypatch) == [*range(1, 8)]


# Planted

LIFE: list[tuple[Any, ...]] = [
    ("add", 1), ("add", 2), ("try_out", 5, 10), ("add", 3), ("advance", 20), ("add", 4), ("deploy", 2, 0),
    ("note", "a"),
]  # fmt: skip


def test_a_snapshot_with_a_tentative_event_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Snapshots, "save", "if loaded.state.unconfirmed:", "if False:")
    assert differences(LIFE) != []


def test_a_snapshot_that_outlives_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Snapshots, "newest", "and snapshot.fingerprint == fingerprint", "")
    assert differences(LIFE) != []


def test_a_snapshot_that_cannot_be_kept_does_no_harm(
    store: ev.EventStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(stream: str, loaded: object) -> None:
        raise DiskFull("events-snapshots", 0)

    monkeypatch.setattr(store._snapshots, "save", full)
    assert store.handle(counter(), "1", "add", amount=0).version == 8
    assert store.handle(counter(), "1", "add", amount=0).version == 9
    assert "no snapshot of Counter 1" in caplog.text
