"""What a capture is asked to do, as it is kept; and what is never shown of it."""

from pathlib import Path

import pytest

from headwater.capture.definition import Definition, Definitions
from headwater.errors import InvalidCapture
from headwater.secret_urls import without_secrets

UNESCAPED = [
    "mysql://root:se/cret@db/shop",
    "mysql://root:se#cret@db/shop",
    "postgresql://root:se?cret@db/shop",
    "postgresql://root:12/secret@db/shop",
    "mysql://root:[secret@db/shop",
    "mysql://root:se@cret@db/shop",
]


@pytest.mark.parametrize("url", UNESCAPED)
def test_a_password_that_is_not_escaped_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidCapture) as refusal:
        Definition(name="users", url=url, tables=("users",))
    assert "cret" not in str(refusal.value)
    assert "%2F" in refusal.value.hint
    assert "cret" not in without_secrets(url)


@pytest.mark.parametrize("url", ["oracle://root:se/cret@db/shop", "root:se/cret@db"])
def test_a_password_of_something_unknown_is_not_repeated_either(url: str) -> None:
    with pytest.raises(InvalidCapture) as refusal:
        Definition(name="users", url=url, tables=("users",))
    assert "cret" not in str(refusal.value)


@pytest.mark.parametrize(
    "url, shown",
    [
        ("postgresql://ada:s%2Fcret@one:5432,two:5433/shop", "postgresql://ada@one:5432,two:5433/shop"),
        ("postgresql://ada:s@[::1]:5432/shop", "postgresql://ada@[::1]:5432/shop"),
        ("sqlite:////var/shop@home.db", "sqlite:////var/shop@home.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert Definition(name="users", url=url, tables=("users",)).shown_url == shown


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"name": "two"}', '{"name": "two", "url": "mysql://root:se/cret@db/shop", "tables": ["t"]}']
)
def test_a_definition_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    definitions = Definitions(tmp_path)
    for name in ("one", "two", "three"):
        definitions.add(Definition(name=name, url="postgresql://db/shop", tables=("users",)))
    (tmp_path / "captures" / "two" / "definition.json").write_text(content)
    (tmp_path / "captures" / "two" / "definition.copy").unlink()
    assert [one.name for one in definitions.all()] == ["one", "three"]
    assert [one.name for one in definitions.all()] == ["one", "three"]
    assert [record.message.startswith("capture two does not run") for record in caplog.records] == [True]
    assert "cret" not in caplog.text
    with pytest.raises(InvalidCapture):
        definitions.get("two")
