"""headwater flow, and the same over HTTP."""

import json
from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.flow.job.controlling import control_of
from headwater.flow.job.identity import FILE as IDENTITY
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
    assert capsys.readouterr().out == "shop.orders stands still after the batch under way\n"
    assert main(["flow", "list", "--json", "--data", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "shop.orders", "state": "paused", "batch": None}]
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
        assert shop.ask("POST", "/flows/shop/resume").json == {"asked": "resume", "flows": ["shop.orders"]}
        assert shop.ask("POST", "/flows/nothing/resume").json["error"] == "UnknownFlow"
        assert shop.ask("POST", "/flows/shop/explode").status in (404, 405)
        shop.store.close()
