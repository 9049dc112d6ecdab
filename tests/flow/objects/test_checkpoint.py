"""The head of a checkpoint at a place that loses, delays and repeats requests, under drivers that die and overlap."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from headwater.errors import JobTakenOver, StateUnavailable
from headwater.flow.objects import checkpoint as checkpoints
from headwater.flow.objects.checkpoint import Checkpoint
from headwater.flow.objects.retries import RetriedObjects
from tests.flow.objects.simulated_objects import Killed, Place, SimulatedObjects

DRIVERS, COMMITS = 12, 12


def driver(place: Place, seed: int, *, faults: float = 0.15) -> Checkpoint:
    objects = SimulatedObjects(place, seed, faults=faults, deadly=True)
    return Checkpoint(RetriedObjects(objects, pauses_ms=(1, 1, 1), wait=lambda seconds: None), "job")


def attempt(call: Callable[[], None]) -> str:
    """How it ended."""
    try:
        call()
    except JobTakenOver:
        return "refused"
    except StateUnavailable:
        return "unknown"
    except Killed:
        return "killed"
    return "done"


def lives(seed: int) -> list[str]:
    """Drivers come one after the other; each counts on from what it finds, and older ones go on trying. What they
    found that must not be is answered."""
    place, dice, wrong = Place(), random.Random(seed), list[str]()
    certain, drivers = 0, list[tuple[Checkpoint, int]]()
    for number in range(DRIVERS):
        try:
            fresh = driver(place, seed * 1000 + number)
            fresh.take(f"driver {number}")
        except (StateUnavailable, Killed):
            continue
        counted = fresh.read("count") or 0
        if counted < certain:
            wrong.append(f"seed {seed}: driver {number} finds {counted}, and {certain} was committed")
        if fresh.read(f"batches/{counted}.json") != ({"batch": counted} if counted else None):
            wrong.append(f"seed {seed}: driver {number} finds half of commit {counted}")
        drivers.append((fresh, counted))
        for step in range(COMMITS):
            place_of = dice.randrange(len(drivers)) if dice.random() < 0.3 else len(drivers) - 1
            one, count = drivers[place_of]
            following, old = count + 1, f"batches/{count - 3}.json"
            changes = {"count": following, f"batches/{following}.json": {"batch": following}, old: None}
            said = attempt(partial(one.commit, changes))
            if said == "done":
                if place_of != len(drivers) - 1:
                    wrong.append(f"seed {seed}: driver {place_of} of {len(drivers)} commits in step {step}")
                certain = max(certain, following)
                drivers[place_of] = one, following
            if said == "killed":
                break
    return wrong


@pytest.mark.parametrize("bytes_max", [100, 1000, 48 * 1024], ids=["always a snapshot", "now and then", "never"])
def test_what_was_committed_is_there_and_older_drivers_commit_nothing(
    monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(checkpoints, "HEAD_BYTES_MAX", bytes_max)
    assert [one for seed in range(60) for one in lives(seed)] == []


def unchecked(self: Checkpoint) -> None:
    """Any driver may commit."""


def unconditional(self: Place, path: str, content: bytes, tag: str | None) -> str:
    return self.write(path, content)


def believing(self: RetriedObjects, path: str, content: bytes, tag: str | None) -> str:
    """Takes the refusal of its own repetition for that of another driver, and goes on as if it had been refused."""
    found = self._objects.tagged(path)
    return self._repeated(lambda: self._objects.swap(path, content, found and found.tag))


@pytest.mark.parametrize(
    "owner, name, planted",
    [(Checkpoint, "_check_own", unchecked), (Place, "swap", unconditional), (RetriedObjects, "swap", believing)],
    ids=["the epoch is not checked", "swaps are not conditional", "a retry swaps whatever is there"],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, planted: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert [one for seed in range(60) for one in lives(seed)] != []


def test_a_swap_whose_answer_is_lost_is_not_done_twice() -> None:
    place = Place()
    first = driver(place, 1, faults=0)
    first.take("the first")
    objects = first.objects._objects  # type: ignore[attr-defined]
    objects._faults, objects._kinds = 1.0, ["unanswered"]
    with pytest.raises(StateUnavailable, match=r"\(4 attempts\)"):
        first.commit({"a": 1})
    objects._faults = 0.0
    first.commit({"b": 2})
    again = driver(place, 2, faults=0)
    assert (again.read("a"), again.read("b")) == (1, 2)


def test_what_is_committed_together_is_one_swap() -> None:
    place = Place()
    one = driver(place, 1, faults=0)
    one.take("the driver")
    before = place.number
    with one.together():
        one.commit({"a": 1})
        one.commit({"b": 2})
        assert (one.read("a"), place.number) == (1, before)
    assert place.number == before + 1


def test_what_fails_together_is_not_there() -> None:
    one = driver(Place(), 1, faults=0)
    one.take("the driver")

    def fails() -> None:
        with one.together():
            one.commit({"a": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert one.read("a") is None
