"""Captures of one node beside each other: who waits for whom, and what is said of one that cannot run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.change import CapturedTable
from headwater.capture.definition import Definition, Definitions
from headwater.capture.notes import Note
from headwater.capture.source import Batch, SourceStatus
from headwater.capture.supervisor import Supervisor
from headwater.clock import Clock, SystemClock
from headwater.errors import SourceGap, SourceRefused, SourceUnavailable, UndecodableChange
from headwater.log.log import Log
from tests.waiting import patience

PATIENCE_SECONDS = 20


class Quiet:
    """A source where nothing happens, and that reports the given status."""

    def __init__(self) -> None:
        self.reported = SourceStatus()
        self.refused: Exception | None = None
        self.copied: list[str] = []
        self.opened = 0
        self.guarded: Callable[[], SourceStatus] = SourceStatus

    def open(self, notes: Mapping[str, Note]) -> None:
        self.opened += 1
        if "renew" in notes:
            return
        if self.refused is not None:
            raise self.refused

    def tables(self) -> Sequence[CapturedTable]:
        return []

    def poll(self, timeout_seconds: float) -> Batch:
        time.sleep(0.01)
        return Batch()

    def confirm(self, address: int) -> None: ...

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None: ...

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        self.copied.append(where)
        if len(self.copied) == 1:
            raise SourceUnavailable("the database does not answer")

    def status(self) -> SourceStatus:
        return self.reported

    def guard(self) -> SourceStatus:
        return self.guarded()

    def close(self) -> None: ...


Sources = dict[str, Quiet]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    for interval in ("STATUS_INTERVAL_MS", "LOOK_SECONDS", "PAUSE_MAX_SECONDS"):
        monkeypatch.setattr(f"headwater.capture.supervisor.{interval}", 0.02)
    made = {name: Quiet() for name in ("one", "two", "three")}

    def make(definition: Definition, clock: Clock) -> Quiet:
        return made[definition.name]

    for name in made:
        Definitions(tmp_path).add(Definition(name=name, url="postgresql://db/shop", tables=("users",)))
    with Log.open(tmp_path) as log:
        supervisor = Supervisor(tmp_path, lambda: LogAppender(log), SystemClock(), make_source=make)
        supervisor.start()
        try:
            yield made
        finally:
            supervisor.stop()


def wait_for(data: Path, name: str, state: str) -> dict[str, object]:
    deadline = patience() + PATIENCE_SECONDS
    while (status := Definitions(data).status(name) or {}).get("state") != state:
        assert patience() < deadline, f"{name} does not become {state}: {status}"
        time.sleep(0.01)
    return status


def test_the_others_wait_for_one_that_was_declared_to_come_first(sources: Sources, tmp_path: Path) -> None:
    wait_for(tmp_path, "two", "streaming")
    sources["one"].reported.pause_others = True
    assert wait_for(tmp_path, "two", "paused")["said"] == "capture one has to catch up first"
    wait_for(tmp_path, "three", "paused")
    wait_for(tmp_path, "one", "streaming")
    sources["one"].reported.pause_others = False
    wait_for(tmp_path, "two", "streaming")


def test_two_that_come_first_do_not_wait_for_each_other(sources: Sources, tmp_path: Path) -> None:
    sources["one"].reported.pause_others = True
    wait_for(tmp_path, "two", "paused")
    sources["two"].guarded = lambda: SourceStatus(pause_others=True)
    sources["two"].reported.pause_others = True
    wait_for(tmp_path, "two", "streaming")
    wait_for(tmp_path, "one", "streaming")
    wait_for(tmp_path, "three", "paused")


def test_the_wal_kept_for_one_that_cannot_run_is_reported_beside_the_reason(sources: Sources, tmp_path: Path) -> None:
    sources["one"].guarded = lambda: SourceStatus(retained_bytes=5, warning="the database keeps 5 bytes of WAL")
    sources["one"].refused = SourceRefused("there is no table users")
    sources["one"].reported.pause_others = True
    sources["one"].poll = lambda timeout_seconds: (_ for _ in ()).throw(SourceRefused("no"))  # type: ignore[method-assign]
    status = wait_for(tmp_path, "one", "refused")
    while "WAL" not in str(status["said"]):
        status = wait_for(tmp_path, "one", "refused")
    assert status["said"] == "there is no table users; the database keeps 5 bytes of WAL"
    assert status["retained_bytes"] == 5
    wait_for(tmp_path, "two", "streaming")


def test_the_limit_holds_for_one_that_cannot_run_too(sources: Sources, tmp_path: Path) -> None:
    def give_up() -> SourceStatus:
        raise SourceGap("its slot was dropped", "Copy it again.")

    sources["one"].guarded = give_up
    sources["one"].poll = lambda timeout_seconds: (_ for _ in ()).throw(SourceRefused("no"))  # type: ignore[method-assign]
    assert "its slot was dropped" in str(wait_for(tmp_path, "one", "gap")["said"])


def test_a_request_is_kept_until_the_source_could_take_it(sources: Sources, tmp_path: Path) -> None:
    wait_for(tmp_path, "one", "streaming")
    path = Definitions(tmp_path).request("one", {"tables": ["users"], "where": "id = 1"})
    deadline = patience() + PATIENCE_SECONDS
    while path.exists():
        assert patience() < deadline, "the request is not taken"
        time.sleep(0.01)
    assert sources["one"].copied == ["id = 1", "id = 1"]


def test_an_undecodable_change_is_a_gap_and_a_new_copy_continues(sources: Sources, tmp_path: Path) -> None:
    wait_for(tmp_path, "one", "streaming")
    sources["one"].refused = UndecodableChange("column a is of type 141", "MODIFY it.")
    sources["one"].poll = lambda timeout_seconds: (_ for _ in ()).throw(UndecodableChange("so"))  # type: ignore[method-assign]
    said = str(wait_for(tmp_path, "one", "gap")["said"])
    assert "column a is of type 141" in said
    assert "headwater capture snapshot one" in said
    del sources["one"].poll
    Definitions(tmp_path).request("one", {"tables": []})
    wait_for(tmp_path, "one", "streaming")


def test_the_others_do_not_wait_for_one_that_was_removed(sources: Sources, tmp_path: Path) -> None:
    def removed_meanwhile() -> SourceStatus:
        Definitions(tmp_path).delete("two")
        time.sleep(0.3)  # it is asked to stop, while it is about to say that others must wait
        return SourceStatus(pause_others=True)

    sources["two"].guarded = removed_meanwhile
    sources["one"].reported.pause_others = True
    wait_for(tmp_path, "three", "paused")
    while (tmp_path / "captures" / "two" / "definition.json").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    sources["one"].reported.pause_others = False
    wait_for(tmp_path, "three", "streaming")
