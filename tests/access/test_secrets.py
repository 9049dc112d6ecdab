"""Secrets: compared in constant time, readable by their owner alone, and in no text that is shown."""

import ast
import stat
from pathlib import Path

import pytest

from headwater.access.local_token import LocalToken
from headwater.kafka_login import KafkaLogin
from tests.rules.source import PACKAGE

COMPARING = [
    *sorted((PACKAGE / "access").glob("*.py")), *sorted((PACKAGE / "wire" / "authentication").glob("*.py")),
    PACKAGE / "serve" / "tokens.py", PACKAGE / "serve" / "http.py",
]  # fmt: skip
SECRET_NAMES = {
    "stored_key",
    "server_key",
    "proof",
    "password",
    "token",
    "signature",
    "client_key",
    "salted",
    "wanted_token",
}


def compared_plainly(file: Path) -> list[str]:
    """Names of secrets on either side of == or !=, but for comparisons with a text that is written there."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Compare) or not any(
            isinstance(one, ast.Eq | ast.NotEq | ast.In) for one in node.ops
        ):
            continue
        names = {part.attr if isinstance(part, ast.Attribute) else part.id
                 for side in (node.left, *node.comparators) for part in [side]
                 if isinstance(part, ast.Attribute | ast.Name)}  # fmt: skip
        found += [f"{file.name}:{node.lineno} {name}" for name in names & SECRET_NAMES]
    return found


def test_no_secret_is_compared_by_equality() -> None:
    assert [line for file in COMPARING for line in compared_plainly(file)] == []


def test_the_check_sees_a_plain_comparison(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("right = made.stored_key == kept.stored_key\n")
    assert compared_plainly(planted) == ["planted.py:1 stored_key"]


def test_the_token_of_the_machine_is_another_at_each_start_and_its_owners_alone(tmp_path: Path) -> None:
    token = LocalToken(tmp_path)
    assert token.value == ""
    token.open()
    (file,) = tmp_path.iterdir()
    first = token.value
    assert file.read_text() == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token.close()
    assert (token.value, list(tmp_path.iterdir())) == ("", [])
    token.open()
    assert token.value not in ("", first)


def test_what_is_shown_of_a_login_has_no_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse\n")
    login = KafkaLogin("alice", file)
    assert login.password == "correct horse"
    assert "correct horse" not in repr(login)


def test_a_missing_password_file_is_an_error_and_not_an_empty_password(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        assert KafkaLogin("alice", tmp_path / "nothing").password
