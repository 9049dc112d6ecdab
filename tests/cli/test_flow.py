"""headwater flow, and the same over HTTP."""

import json
from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.flow.commit.job_identity import FILE as IDENTITY
from headwater.flow.declare.retries import Retries
from headwater.flow.run.control import control_of
from headwater.flow.run.health import HealthFile
from headwater.flow.run.supervision import Event, Failure, Warned
from headwater.serve.tokens import Tokens
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from headwater.views.store import open_store
from tests.serve.shop import Shop


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "flows" / "shop" / "orders"
    folder.mkdir(parents=True)
    (folder / IDENTITY).write_text("{}")
    return folder


def test_a_flow_is_paused_shown_and_resumed(tmp_path: Path, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flow", "pause", "shop.orders", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "shop.orders pauses after its current batch\n"
    assert main(["flow", "list", "--json", "--data", str(tmp_path)]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["state"], listed["batch"], listed["reason"]) == ("shop.orders", "paused", None, "")
    assert main(["flow", "resume", "shop", "--data", str(tmp_path)]) == 0
    assert not control_of(job).paused


def test_a_flow_that_is_not_there_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flow", "restart", "shop", "--data", str(tmp_path)]) == 1
    assert 'there is no flow "shop"' in capsys.readouterr().err


def test_over_http_it_needs_the_scope_for_it(tmp_path: Path, job: Path) -> None:
    tokens = Tokens(tmp_path)
    reader, operator = tokens.add("reader", ("read", "produce")), tokens.add("operator", ("operate",))
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        shop = Shop(node, open_store(tmp_path, "shop"))
        far = {"x-forwarded-for": "elsewhere"}
        assert shop.ask("POST", "/flows/shop.orders/pause", headers=far).status == 401
        for token, status in ((reader, 403), (operator, 202)):
            said = shop.ask("POST", "/flows/shop.orders/pause", headers={**far, "authorization": f"Bearer {token}"})
            assert said.status == status
        assert control_of(job).paused
        own = {"authorization": f"Bearer {operator}"}
        assert shop.ask("POST", "/flows/shop/resume", headers=own).json == {"asked": "resume", "flows": ["shop.orders"]}
        assert shop.ask("POST", "/flows/nothing/resume", headers=own).json["error"] == "UnknownFlow"
        assert shop.ask("POST", "/flows/shop/explode", headers=own).status in (404, 405)
        shop.store.close()


def test_a_list_says_why_a_flow_failed_how_often_and_what_else_is_strange(
    tmp_path: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    down, few = Failure("StoreUnavailable", "the database does not answer"), Retries(limit=1)
    file = HealthFile(job)
    failing = file.read().begun().warned(Warned("topic", "topic ordres was made, empty", 5))
    file.write(failing.failed(down, few, 1_000).failed(down, few, 61_000).after(Event.STOPPED))
    assert main(["flow", "list", "--data", str(tmp_path)]) == 0
    head, row, reason, warning = capsys.readouterr().out.splitlines()
    assert (head.split(), row.split()) == (["flow", "state", "batch"], ["shop.orders", "failed", "-"])
    assert reason == (
        "shop.orders: the database does not answer (2 times from 1970-01-01 00:00:01 UTC to 1970-01-01 00:01:01 UTC)"
    )
    assert warning == "shop.orders: warning: topic ordres was made, empty"
    assert main(["flow", "list", "--json", "--data", str(tmp_path)]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["state"], listed["error"], listed["failed_count"]) == ("failed", "StoreUnavailable", 2)


def test_a_flow_whose_files_are_damaged_is_listed_beside_the_others(
    tmp_path: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = job.with_name("users")
    (other / "batches").mkdir(parents=True)
    (other / IDENTITY).write_text("{}")
    (other / "batches" / "3.json").write_text("{")
    assert main(["flow", "list", "--json", "--data", str(tmp_path)]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["shop.orders", "shop.users"]
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        shop = Shop(node, open_store(tmp_path, "shop"))
        flows = shop.ask("GET", "/flows").json
        assert [one["name"] for one in flows] == ["shop.orders", "shop.users"]
        assert "its figures cannot be read" in flows[1]["reason"]
        assert shop.ask("GET", "/metrics").status == 200
        shop.store.close()
