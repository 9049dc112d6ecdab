"""A capture whose database cannot be reached: it says why, it can be removed, and it blocks no other capture."""

import argparse
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.capture.definition import Definition, Definitions
from headwater.cli.capture_runs import wait_for
from headwater.cli.failure import Failure
from headwater.cli.main import main
from headwater.cli.stop_signals import listening
from headwater.errors import CaptureExists, UnknownCapture
from headwater.settings import HttpSettings
from tests.waiting import LONG, wait_until
from tests.webhooks.target import closed_port


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.capture.supervisor.PAUSE_MAX_SECONDS", 0.25)


@contextmanager
def running(data: Path) -> Iterator[Node]:
    settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0), captures=True)
    with Node(data, settings) as node:
        yield node


def until(reached: Callable[[], object]) -> None:
    wait_until(lambda: bool(reached()), "it comes so far", seconds=60)


def unreachable() -> Definition:
    return Definition(name="users", url=f"postgresql://ada:s3cret@127.0.0.1:{closed_port()}/shop", tables=("users",))


def of_sqlite(folder: Path) -> Definition:
    file = folder / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT)")
    database.close()
    return Definition(name="users", url=f"sqlite:///{file}", tables=("users",))


def ask(node: Node, method: str, path: str) -> tuple[int, Any]:
    connection = HTTPConnection(node.http_url.removeprefix("http://"), timeout=LONG)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_it_says_why_and_stays_until_it_is_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    definitions = Definitions(data)
    definitions.add(unreachable())
    with running(data) as node:
        until(lambda: "does not answer" in str((definitions.status("users") or {}).get("said")))
        assert main(["capture", "status", "--data", str(data)]) == 0
        output = capsys.readouterr().out
        assert "does not answer" in output
        assert "s3cret" not in output
        [shown] = ask(node, "GET", "/captures")[1]
        assert "does not answer" in shown["said"]
        assert main(["capture", "remove", "users", "--data", str(data)]) == 0
        until(lambda: definitions.report("users")["state"] == "removing")
        until(lambda: "--force" in str(definitions.report("users")["said"]))
        assert main(["capture", "remove", "users", "--force", "--data", str(data)]) == 0
        until(lambda: not definitions.names())


def test_it_is_removed_over_http_when_forced_and_blocks_no_other_meanwhile(tmp_path: Path) -> None:
    data = tmp_path / "data"
    definitions = Definitions(data)
    definitions.add(unreachable())
    with running(data) as node:
        assert ask(node, "DELETE", "/captures/users") == (202, {"removing": "users", "force": False})
        until(lambda: definitions.report("users").get("failures"))
        definitions.add(Definition(name="other", url=of_sqlite(tmp_path).url, tables=("users",)))
        until(lambda: definitions.report("other")["state"] == "streaming")
        assert ask(node, "DELETE", "/captures/users?force=maybe")[0] == 422
        assert ask(node, "DELETE", "/captures/users?force=true")[0] == 202
        until(lambda: definitions.names() == ["other"])
        assert ask(node, "DELETE", "/captures/nothing?force=true")[0] == 404
        assert ask(node, "DELETE", "/captures/..?force=true")[0] == 404


def test_without_a_node_what_is_left_at_the_database_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Definitions(tmp_path).add(unreachable())
    assert main(["capture", "remove", "users", "--data", str(tmp_path)]) == 1
    assert "headwater capture remove users --force" in capsys.readouterr().err
    assert main(["capture", "remove", "users", "--force", "--data", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert f"pg_drop_replication_slot('headwater_users_{made.token}')" in said.out + said.err
    assert Definitions(tmp_path).names() == []


def test_a_corrected_url_replaces_a_capture_that_never_began(tmp_path: Path) -> None:
    data = tmp_path / "data"
    definitions = Definitions(data)
    definitions.add(unreachable())
    with running(data):
        until(lambda: (definitions.status("users") or {}).get("failures"))
        definitions.add(of_sqlite(tmp_path))
        until(lambda: definitions.report("users")["state"] == "streaming")
        with pytest.raises(CaptureExists):
            definitions.add(unreachable())
    with pytest.raises(CaptureExists):
        definitions.add(unreachable())


def test_before_it_was_tried_only_its_url_can_be_corrected(tmp_path: Path) -> None:
    definitions = Definitions(tmp_path)
    definitions.add(unreachable())
    other = unreachable()
    assert definitions.add(other).url == other.url
    with pytest.raises(CaptureExists):
        definitions.add(replace(other, tables=("orders",)))


def test_a_capture_of_an_older_version_is_never_replaced(tmp_path: Path) -> None:
    definitions = Definitions(tmp_path)
    definitions.save(unreachable())
    with pytest.raises(CaptureExists):
        definitions.add(of_sqlite(tmp_path))
    with pytest.raises(UnknownCapture):
        definitions.remove("..", force=True)


def test_who_processes_what_is_there_now_gives_up_with_the_reason(tmp_path: Path) -> None:
    definitions = Definitions(tmp_path)
    definitions.add(unreachable())
    arguments = argparse.Namespace(data=tmp_path)
    declared: Any = {"users": argparse.Namespace(name="")}
    refused = pytest.raises(Failure, match="not begun after 3 attempts: the database does not answer")
    with running(tmp_path), listening() as stopping, refused:
        wait_for(arguments, declared, stopping, since_ms=0, complete=True, attempts_max=3)


def test_the_same_reason_is_logged_ever_more_rarely(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    definitions = Definitions(tmp_path)
    definitions.add(unreachable())
    with caplog.at_level(logging.WARNING, "headwater.capture.supervisor"), running(tmp_path):
        until(lambda: int(str((definitions.status("users") or {}).get("failures", 0))) >= 9)
    lines = [one.getMessage() for one in caplog.records if "users waits" in one.getMessage()]
    assert 4 <= len(lines) <= 5, lines
    assert "(8 times by now)" in lines[3]


def test_a_damaged_definition_says_so_in_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Definitions(tmp_path).add(unreachable())
    for name in ("definition.json", "definition.copy"):
        (tmp_path / "captures" / "users" / name).write_text("{")
    assert main(["capture", "status", "users", "--data", str(tmp_path)]) == 0
    assert "is damaged" in capsys.readouterr().out


def test_a_damaged_definition_can_be_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Definitions(tmp_path).add(unreachable())
    for name in ("definition.json", "definition.copy"):
        (tmp_path / "captures" / "users" / name).write_text("{")
    assert main(["capture", "remove", "users", "--data", str(tmp_path)]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert main(["capture", "remove", "users", "--force", "--data", str(tmp_path)]) == 0
    assert Definitions(tmp_path).names() == []
