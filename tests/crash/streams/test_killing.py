"""Kill a process of fifty writers again and again: no update is lost, none is doubled, and time is not contradicted."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from headwater.log.log import Log
from headwater.log.streams.event_topic import EventTopic
from tests.crash.streams.careless_writers import BUGS
from tests.crash.streams.linearizability import NEVER, Operation, anomalies
from tests.crash.streams.writers import TOPIC
from tests.waiting import LONG, Deadline

ROUNDS = [pytest.param(3, id="short"), pytest.param(100, id="long", marks=[pytest.mark.torture, pytest.mark.slow])]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_fifty_writers_that_are_killed_lose_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    history, random = tmp_path / "history", Random(7)
    history.touch()
    for seed in range(rounds):
        write_and_be_killed(tmp_path / "data", history, seed, lines=random.randint(200, 2000))
    assert examined(tmp_path / "data", history) == []


def write_and_be_killed(data: Path, history: Path, seed: int, *, lines: int, bug: str = "") -> None:
    """Until the history has so many lines more: a count, since a busy machine is slow."""
    module = f"tests.crash.streams.{'careless_writers' if bug else 'writers'}"
    command = [sys.executable, "-m", module, str(data), str(history), str(seed), *([bug] if bug else [])]
    wanted, deadline = history.read_bytes().count(b"\n") + lines, Deadline(LONG)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while history.read_bytes().count(b"\n") < wanted and not deadline.passed:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.02)
        process.kill()


def examined(data: Path, history: Path) -> list[str]:
    begun: dict[str, tuple[int, str, str, str]] = {}
    ends: dict[str, tuple[int, str, int]] = {}
    for moment, line in enumerate(history.read_text().splitlines()):
        kind, id, *said = line.split()
        if kind == "begin":
            begun[id] = moment, said[0], said[2], said[1]
        else:
            ends[id] = moment, kind, int(said[0])
    found = []
    stored: dict[tuple[str, str], int] = {}
    with Log.open(data) as log:
        topic = EventTopic.open(log, TOPIC)
        for stream in topic.streams():
            for version, event in enumerate(topic.read(stream), start=1):
                if event.version != version or (stream, event.request) in stored:
                    found.append(f"{stream}: version {event.version} is at {version}, or its request is there twice")
                stored[stream, event.request] = version
    return found + list(contradictions(begun, ends, stored))


def contradictions(
    begun: dict[str, tuple[int, str, str, str]],
    ends: dict[str, tuple[int, str, int]],
    stored: dict[tuple[str, str], int],
) -> list[str]:
    found = []
    operations: defaultdict[str, list[Operation]] = defaultdict(list)
    first: dict[tuple[str, str], list[str]] = defaultdict(list)
    for id, (moment, stream, request, expected) in begun.items():
        ended, kind, version = ends.get(id, (NEVER, "", 0))
        if kind == "saw":
            operations[stream].append(Operation(moment, ended, saw=version))
        if kind == "made" and stored.get((stream, request)) != version:
            found.append(
                f"{stream}: {request} was answered as version {version} and is {stored.get((stream, request))}"
            )
        if kind == "made" and version != int(expected) + 1:
            found.append(f"{stream}: {request} was stored as version {version}, and version {expected} was expected")
        if kind == "saw" and (stream, request) in stored:
            found.append(f"{stream}: {request} was refused, and it is stored")
        if request != "-" and (stream, request) in stored and kind != "saw":
            first[stream, request].append(id)
    for (stream, request), ids in first.items():
        # Sent again after a kill, it took effect once, between the first beginning and the first answer.
        began = min(begun[id][0] for id in ids)
        ended = min(ends[id][0] if id in ends else NEVER for id in ids)
        operations[stream].append(Operation(began, ended, made=stored[stream, request]))
    for stream, done in operations.items():
        found += [f"{stream}: {one}" for one in anomalies(done)]
    return found


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ([Operation(1, 2, made=1), Operation(3, 4, made=2), Operation(5, 6, saw=2)], ""),
        ([Operation(1, 9, made=1), Operation(2, 3, saw=0), Operation(4, 5, saw=1), Operation(6, 7, saw=1)], ""),
        ([Operation(1, 9, made=1), Operation(2, 3, saw=1), Operation(4, 5, saw=0)], "before it was there"),
        ([Operation(1, 2, made=2), Operation(3, 4, made=1)], "ended before it"),
        ([Operation(1, 2, made=1), Operation(3, 4, made=1)], "twice"),
        ([Operation(1, 2, made=1), Operation(3, 4, saw=0)], "had been there"),
        ([Operation(1, 2, saw=1), Operation(3, 4, made=1)], "before it was there"),
        ([Operation(1, 2, made=2)], "by nothing"),
    ],
)
def test_the_checker_knows_what_time_contradicts(done: list[Operation], said: str) -> None:
    assert (" ".join(anomalies(done)) == "") if not said else (said in " ".join(anomalies(done)))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    history = tmp_path / "history"
    history.touch()
    for seed in range(2):
        write_and_be_killed(tmp_path / "data", history, seed, lines=1000, bug=bug)
    assert examined(tmp_path / "data", history) != []
