"""Every kind of file, every damage, after a clean stop and after kill -9: never silently wrong, never more than its own
topic or job offline, always named by `headwater log check`."""

import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.flow.run.health import condition_of
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.run.supervision import State
from headwater.node import Node
from headwater.record import Record
from headwater.views.view import View
from tests.crash.damage.building import (
    APP,
    CUT_OFF,
    KILLED,
    OLDER,
    ORDERS,
    STOPPED,
    TOTALS,
    VISITS,
    WORN,
    Images,
    declare,
    node_settings,
)
from tests.crash.damage.damages import DAMAGES, EMPTY, FLIPPED, TRUNCATED, inflict, like_a_crash, positions, possible
from tests.crash.damage.damages import OLDER as OLDER_VERSION
from tests.crash.damage.kinds import KINDS, Found, Kind, files_of, kind_of
from tests.crash.damage.oracle import Seen, broken_promises_in, check_lines, look, no_traces
from tests.flow.engines import Engine, session_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EVERY_DAMAGE = (*DAMAGES, OLDER_VERSION)
NAMES = [kind.name for kind in KINDS]
AT_REST = (KILLED, STOPPED, CUT_OFF)
CUT_SHORT = {
    "promised compaction", "compacted segment", "quarantine", "topic that goes", "archive that goes",
    "request to a capture", "promised shards", "promised rebuild", "rebuild under way", "start that failed",
    "capture that never began",
}  # fmt: skip
"""Kinds that only a crash in the middle of longer work leaves."""
WRITTEN_ONCE = {
    *CUT_SHORT, "archived segment", "archived index", "clean stop", "lock", "lock of a part", "address", "batch",
    "state manifest", "state run", "views' journal", "views' shared memory", "search lock",
}  # fmt: skip
"""There is no older version of such a file."""
ALWAYS_EMPTY = {"clean stop", "search lock", "capture that never began"}
IMPOSSIBLE = {(name, OLDER_VERSION) for name in WRITTEN_ONCE} | {
    (name, damage) for name in ALWAYS_EMPTY for damage in (EMPTY, TRUNCATED, FLIPPED)
}
"""Damages that no file of a kind can have; of all others there is a case."""


@pytest.fixture(scope="module")
def truths(images: Images, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    found = {}
    for name in AT_REST:
        copy = tmp_path_factory.mktemp("truth") / name
        shutil.copytree(images.of(name), copy)
        lines = check_lines(copy / "data")
        assert [line for line in lines if not line.startswith(f"{WORN}/0: in quarantine: ")] == []
        found[name] = look(copy / "data")
        found[name].lines = lines
        assert found[name].refusals == {}
    return found


def members(images: Images, image: str, kind: Kind) -> list[Found]:
    return [one for one in all_files(images.of(image) / "data") if one.kind == kind]


@lru_cache(maxsize=8)
def all_files(data: Path) -> tuple[Found, ...]:
    return tuple(one for one in map(kind_of, files_of(data)) if one is not None)


def broken_promises(images: Images, truth: Seen, image: str, damaged: Found, damage: str, folder: Path) -> list[str]:
    """Of one case; a bit is flipped in several positions, one after the other."""
    whole = images.of(image) / "data" / damaged.path
    flips = positions(whole) if damage == FLIPPED and not damaged.kind.harmless else [None]
    return [
        f"{damaged.path} {damage}{'' if position is None else f' at {position}'} ({image}): {problem}"
        for position in flips
        for problem in _broken_promises(images, truth, image, damaged, damage, folder, position)
    ]


def _broken_promises(
    images: Images, truth: Seen, image: str, damaged: Found, damage: str, folder: Path, position: int | None
) -> list[str]:
    case = folder / "case"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(images.of(image), case)
    data = case / "data"
    older = images.of(OLDER) / "data" / damaged.path
    inflict(damage, data / damaged.path, older, position=position)
    with no_traces() as traces:
        lines = check_lines(data)
        seen = look(data)
        if image == CUT_OFF:  # what was promised is carried out by now
            lines += check_lines(data)
    behind = like_a_crash(damage, images.of(image) / "data" / damaged.path, older)
    return [
        *broken_promises_in(truth, seen, lines, damaged, damage, like_a_crash=behind),
        *(f"a stack trace: {trace}" for trace in traces),
    ]


def test_every_file_is_of_a_kind_that_the_table_knows(images: Images) -> None:
    paths = {path for image in (OLDER, *AT_REST) for path in files_of(images.of(image) / "data")}
    assert [path for path in sorted(paths) if kind_of(path) is None] == []


def test_there_is_a_file_of_every_kind(images: Images) -> None:
    found = {kind_of(path) for image in AT_REST for path in files_of(images.of(image) / "data")}
    assert {kind.name for kind in KINDS if not kind.passing} - {one.kind.name for one in found if one} == set()


def test_there_is_a_case_of_every_damage_of_every_kind_but_for_those_that_cannot_be(images: Images) -> None:
    there = {
        (one.kind.name, damage)
        for image in AT_REST
        for one in all_files(images.of(image) / "data")
        for damage in EVERY_DAMAGE
        if fits(images, image, one, damage)
    }
    wanted = {(kind.name, damage) for kind in KINDS if not kind.passing for damage in EVERY_DAMAGE}
    assert wanted - there == IMPOSSIBLE


CHOSEN = [
    pytest.param(kind, damage, (KILLED, STOPPED)[position % 2], id=f"{kind.name}-{damage}")
    for position, kind in enumerate(KINDS)
    for damage in (EVERY_DAMAGE[position % len(EVERY_DAMAGE)],)
]
"""One damage of every kind, in turns."""


@pytest.mark.parametrize(("kind", "damage", "image"), CHOSEN)
def test_a_damaged_file_is_named_and_stops_no_more_than_its_own(
    images: Images, truths: dict[str, Seen], tmp_path: Path, kind: Kind, damage: str, image: str
) -> None:
    """One file of the kind, after kill -9 or after a clean stop; all of them are in the whole matrix."""
    cases = [one for one in everywhere(images, image, kind) if fits(images, *one, damage)]
    assert cases or kind.passing or (kind.name, damage) in IMPOSSIBLE, "there is nothing to damage"
    found = [
        problem
        for image, one in cases[:1]
        for problem in broken_promises(images, truths[image], image, one, damage, tmp_path)
    ]
    assert found == []


@pytest.mark.torture
@pytest.mark.parametrize("image", AT_REST)
@pytest.mark.parametrize("damage", EVERY_DAMAGE)
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_damaged_file_is_named_and_stops_no_more_than_its_own(
    images: Images, truths: dict[str, Seen], tmp_path: Path, kind: Kind, damage: str, image: str
) -> None:
    cases = [one for one in members(images, image, kind) if fits(images, image, one, damage)]
    if image == CUT_OFF and kind.name not in CUT_SHORT:
        pytest.skip("as after a clean stop")
    found = [p for one in cases for p in broken_promises(images, truths[image], image, one, damage, tmp_path)]
    assert found == []


def everywhere(images: Images, first: str, kind: Kind) -> Iterator[tuple[str, Found]]:
    """The largest first: there is something in it. Of another image only if this one has none."""
    for image in (first, *(one for one in AT_REST if one != first)):
        size = lru_cache(lambda path, image=image: (images.of(image) / "data" / path).stat().st_size)
        for one in sorted(members(images, image, kind), key=lambda one: -size(one.path)):
            yield image, one


def fits(images: Images, image: str, damaged: Found, damage: str) -> bool:
    file, older = (images.of(name) / "data" / damaged.path for name in (image, OLDER))
    return possible(damage, file, older)


@pytest.mark.parametrize("image", [KILLED, STOPPED])
@pytest.mark.parametrize(
    "folder",
    [
        "orders-0", "topics", "archive", "views", f"flows/{APP}/{ORDERS}/batches",
        f"flows/{APP}/{ORDERS}/sinks", f"flows/{APP}/{ORDERS}/state/spent/runs",
        f"flows/{APP}/{ORDERS}/state/spent/versions", f"flows/{APP}/{ORDERS}/state",
    ],
)  # fmt: skip
def test_a_whole_folder_that_is_gone_is_named(images: Images, tmp_path: Path, folder: str, image: str) -> None:
    case = tmp_path / "case"
    shutil.copytree(images.of(image), case)
    shutil.rmtree(case / "data" / folder)
    lines = check_lines(case / "data")
    assert any(folder.rpartition("/")[2] in line for line in lines), lines


def test_a_job_whose_sink_has_lost_its_file_and_the_copy_names_it_and_the_others_continue(
    images: Images, engine: Engine
) -> None:
    root = images.root  # a job does not let its folder be moved
    shutil.rmtree(root)
    shutil.copytree(images.of(KILLED), root)
    data, job = root / "data", root / "data" / "flows" / APP / ORDERS
    for name in (f"{TOTALS}.json", f"{TOTALS}.copy"):
        inflict(TRUNCATED, job / "sinks" / name, job)
    with Node(data, node_settings(http=False)) as node:
        for topic in (ORDERS, VISITS):
            node.log.append(topic, Record(b'{"user_id": 1, "page": "/fresh", "id": "fresh"}'), partition=0)
        session, columns = session_of(engine)
        running = RunningApp(declare(root), session, RunSettings(data, node.kafka_address, once=True))
        try:
            with columns():
                running.start()
                with pytest.raises(HeadwaterError, match=f"sinks/{TOTALS}.json is damaged"):
                    running.wait()
        finally:
            running.stop()
    shown = condition_of(job)
    assert (shown.state, f"sinks/{TOTALS}.json" in shown.reason) == (State.FAILED, True)
    assert condition_of(job.with_name(VISITS)).state == State.STOPPED
    with View.open(data, APP, "pages") as pages:
        assert "/fresh" in {row["page"] for row in pages.rows()}
    assert any(f"sinks/{TOTALS}.json" in line for line in check_lines(data))
