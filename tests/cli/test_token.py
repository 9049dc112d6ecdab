"""headwater token: made once, listed without its secret, removed."""

from tests.cli.conftest import Terminal

GRAFANA = {"name": "grafana", "scopes": ["metrics"], "principal": "Token:grafana"}


def test_a_token_is_shown_once_listed_and_removed(terminal: Terminal) -> None:
    made = terminal.type("token", "add", "grafana", "--scope", "metrics").output.strip()
    assert made.startswith("hw_")
    listed = terminal.type("token", "list").output
    assert "grafana" in listed
    assert made not in listed
    assert terminal.type("token", "list", "--json").json == [GRAFANA]
    assert terminal.type("token", "add", "grafana").code == 1
    assert terminal.type("token", "remove", "grafana").code == 0
    assert "there are no tokens" in terminal.type("token", "list").output


def test_tokens_outlive_a_file_that_is_deleted_and_damage_lets_no_client_in(terminal: Terminal) -> None:
    terminal.type("token", "add", "grafana", "--scope", "metrics")
    (terminal.data / "tokens.json").unlink()
    assert terminal.type("token", "list", "--json").json == [GRAFANA]
    (terminal.data / "tokens.copy").write_text("{")
    failed = terminal.type("token", "list")
    assert failed.code == 1
    assert "tokens.json is damaged" in failed.errors
