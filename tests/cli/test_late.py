"""headwater late: late rows, explained; replay is tested in tests/flow/job/test_taking_back.py."""

import json
from pathlib import Path
from typing import Any

from headwater import Node, Record
from headwater.cli.late import show_replay
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.late.replay_batches import ReplayedLate
from headwater.flow.proof.rebuilt_late import note_rebuilt
from tests.cli.conftest import Terminal
from tests.cli.test_run import write_app


def late(offset: int, **more: Any) -> dict[str, Any]:
    return {
        "reason": "the window that ended at 2026-03-01T12:01:00Z was over when the watermark came to "
        "2026-03-01T12:05:00Z",
        "time": "2026-03-01T12:00:58Z", "watermark": "2026-03-01T12:05:00Z",
        "window": {"start": "2026-03-01T12:00:00Z", "end": "2026-03-01T12:01:00Z"},
        "operator": "totals", "stream": "readings", "topic": "readings", "partition": 0, "offset": offset,
        "batch": 3, "row": {"sensor": "a", "value": 7}, **more,
    }  # fmt: skip


def said(terminal: Terminal, node: Node, *records: dict[str, Any]) -> None:
    """A job that has left these in its late topic."""
    folder = JobFolder(terminal.data / "flows" / "plant" / "readings")
    identify(folder, app="plant", job="readings", cluster="c", shards=2)
    node.log.create_topic("plant.readings.late")
    if records:
        node.log.append("plant.readings.late", [Record(json.dumps(one).encode()) for one in records])


def admitted(offset: int, batch: int) -> dict[str, Any]:
    location = {"operator": "totals", "stream": "readings", "topic": "readings", "partition": 0, "offset": offset}
    return {"admitted": True, "batch": batch, **location}


def test_late_rows_explain_themselves(terminal: Terminal, node: Node) -> None:
    said(terminal, node, late(4), late(9), admitted(4, 7))
    ran = terminal.type("late", "show", "plant")
    assert ran.code == 0, ran.errors
    assert ran.output.splitlines()[0].split() == ["operator", "record", "time", "watermark", "window", "status"]
    first = " ".join(ran.output.splitlines()[1].split())
    assert first.startswith("plant.readings.totals readings/0@4 2026-03-01T12:00:58Z 2026-03-01T12:05:00Z")
    assert first.endswith("2026-03-01T12:00:00Z to 2026-03-01T12:01:00Z replayed in batch 7")
    assert "1 row late for totals of plant.readings; the newest: the window that ended at" in ran.output
    assert "1 row replayed" in ran.output


def test_scripts_get_all_that_is_known_of_a_late_row(terminal: Terminal, node: Node) -> None:
    said(terminal, node, late(4), admitted(4, 7), late(9))
    rows = terminal.type("late", "show", "plant.readings", "--json").json
    assert [(row["offset"], row["admitted"]) for row in rows] == [(4, 7), (9, None)]
    assert rows[1]["row"] == {"sensor": "a", "value": 7}
    assert rows[1]["window"]["end"] == "2026-03-01T12:01:00Z"


def test_rows_that_a_rebuild_included_are_late_no_more(terminal: Terminal, node: Node) -> None:
    late_rows = [
        late(1),
        late(2, rebuilt="given up"),
        late(3, rebuilt="in force"),
        late(4, batch=13),
        late(5, operator="n"),
    ]
    said(terminal, node, *late_rows)
    folder = JobFolder(terminal.data / "flows" / "plant" / "readings")
    note_rebuilt(folder, ["totals"], batch=12, attempt="in force")
    rows = terminal.type("late", "show", "--json").json
    assert [row["offset"] for row in rows] == [3, 4, 5]


def test_a_row_that_is_late_again_after_a_rebuild_is_not_hidden_by_an_earlier_replay(
    terminal: Terminal, node: Node
) -> None:
    again = [late(4, rebuilt="in force", batch=12), late(5, rebuilt="in force", batch=12)]
    said(terminal, node, late(4), admitted(4, 7), *again, admitted(5, 13))
    folder = JobFolder(terminal.data / "flows" / "plant" / "readings")
    note_rebuilt(folder, ["totals"], batch=12, attempt="in force")
    rows = terminal.type("late", "show", "--json").json
    assert [(row["offset"], row["admitted"]) for row in rows] == [(4, None), (5, 13)]


def test_where_nothing_is_late_that_is_said(terminal: Terminal, node: Node) -> None:
    said(terminal, node)
    assert terminal.type("late", "show").output == "no row is late\n"


def test_an_app_that_runs_is_asked_to_stop_first(terminal: Terminal) -> None:
    write_app(terminal.folder)
    job = JobFolder(terminal.data / "flows" / "shop" / "orders")
    identify(job, app="shop", job="orders", cluster="one", shards=2)
    job.lock()
    try:
        ran = terminal.type("late", "replay", "shop", "--file", "shop.py")
    finally:
        job.unlock()
    assert ran.code == 1
    assert "job orders is being run by process" in ran.errors
    assert "Stop that one first." in ran.errors


def test_an_unknown_app_is_answered_with_the_known_ones(terminal: Terminal, tmp_path: Path) -> None:
    assert "no app has run on" in terminal.type("late", "replay").errors
    folder = terminal.data / "flows" / "plant"
    folder.mkdir(parents=True)
    (folder / "app.json").write_text(json.dumps({"file": str(tmp_path / "plant.py")}))
    assert "no app plan has run here. There are: plant" in terminal.type("late", "replay", "plan").errors


def test_what_was_replayed_and_what_stays_late_is_reported(capsys: Any) -> None:
    taken = {
        "readings": ReplayedLate({"totals": 2}, {"trips": (1, "it may have to be joined")}, 8),
        "orders": ReplayedLate({}, {}),
    }
    show_replay("plant", taken, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "plant.readings: 2 rows replayed into totals, in batch 8",
        "plant.readings: 1 row still late for trips: it may have to be joined",
        "plant.orders: no row is late",
    ]
    show_replay("plant", taken, as_json=True)
    assert json.loads(capsys.readouterr().out)["readings"]["left"] == {
        "trips": {"rows": 1, "why": "it may have to be joined"}
    }
