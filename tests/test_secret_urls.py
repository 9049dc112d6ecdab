"""A password whose end is ambiguous leaks nothing: not into a sentence, nor into a name look-up."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.capture.definition import Definition
from headwater.cli.main import main
from headwater.errors import HeadwaterError
from headwater.flow.registry.client import RegistryClient
from headwater.flow.sinks.folders import folder_at
from headwater.flow.sinks.redis_cache import RedisSink
from headwater.flow.sinks.view import table_sink
from headwater.log.log import Log
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.settings import LogSettings
from headwater.views.store import open_store

CANARY = "c4n4ry"
PASSWORDS = [
    f"x@{CANARY}", f"x@{CANARY}@y", f"x/{CANARY}", f"x?{CANARY}", f"x#{CANARY}", f"x@{CANARY}/y", f"[{CANARY}",
    f"{CANARY}]", f"{CANARY}%zz", f"%{CANARY}", f"{CANARY}%00", f"a {CANARY}", f"{CANARY}\n", f"1/{CANARY}@x",
]  # fmt: skip

Use = Callable[[str, Path], Any]

USES: dict[str, tuple[str, Use]] = {
    "a capture of PostgreSQL": ("postgresql", lambda url, _: Definition(name="c", url=url, tables=("t",))),
    "a capture of MariaDB": ("mysql", lambda url, _: Definition(name="c", url=url, tables=("t",))),
    "views": ("postgresql", lambda url, _: open_store(url, "app")),
    "a table": ("postgres", lambda url, _: table_sink(url, "reports.sales", name="sales")),
    "a cache": ("redis", lambda url, _: RedisSink(url, prefix="p", name="cache")),
    "files": ("sftp", lambda url, _: folder_at(url)),
    "a registry": ("http", lambda url, _: RegistryClient(url, patience_seconds=0).ask("GET", "/subjects")),
    "a node": ("http", lambda url, _: hw.connect(url).topics()),
    "the archive": ("sftp", lambda url, data: Log.open(data, settings=LogSettings(archive_url=url))),
    "an alert's webhook": ("https", lambda url, _: hw.notify.webhook(url)),
    "an alert's mail server": (
        "smtp", lambda url, _: hw.notify.email("a@example.org", sender="b@example.org", host=url),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: object, *_: object, **__: object) -> None:
        raise AssertionError(f"{host!r} was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("name", USES)
def test_a_password_that_is_not_escaped_is_refused_and_shown_nowhere(name: str, password: str, tmp_path: Path) -> None:
    scheme, use = USES[name]
    with pytest.raises(HeadwaterError) as refusal:
        use(f"{scheme}://ada:{password}@db.invalid:5432/shop", tmp_path)
    message = f"{refusal.value} {refusal.value!r} {getattr(refusal.value, 'hint', '')}"
    assert CANARY not in message
    assert CANARY not in str(refusal.value.__cause__ or "")


COMMANDS = {
    "capture add": ["capture", "add", "c", "{postgresql}", "--table", "t", "--data", "{data}"],
    "capture add of MariaDB": ["capture", "add", "c", "{mysql}", "--table", "t", "--data", "{data}"],
    "capture check": ["capture", "check", "{postgresql}", "--table", "t"],
    "capture add of nothing": ["capture", "add", "c", "{nothing}", "--table", "t", "--data", "{data}"],
    "schema list": ["schema", "list", "--registry", "{http}"],
    "schema list without http": ["schema", "list", "--registry", "{nothing}"],
    "start": ["start", "--archive", "{sftp}", "--data", "{data}", "--kafka", "127.0.0.1:0", "--http", "off"],
}


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_shows_it(name: str, password: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    urls = {scheme: f"{scheme}://ada:{password}@db.invalid/shop" for scheme in ("postgresql", "mysql", "http", "sftp")}
    words = [word.format(**urls, nothing=f"ada:{password}@db.invalid", data=tmp_path) for word in COMMANDS[name]]
    assert main(words) != 0
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err
    assert said.err.count("\n") <= 2, "a sentence"


@given(st.text(min_size=1, max_size=20))
def test_a_password_that_is_escaped_is_taken_and_never_shown(password: str) -> None:
    from urllib.parse import quote

    quoted = quote(f"{CANARY}{password}", safe="", errors="replace").replace("%00", "%01")
    url = f"postgresql://ada:{quoted}@db.example:5432,[::1]:5433/shop?sslmode=require&password={quoted}"
    assert ambiguity(url) == ""
    assert without_secrets(url) == "postgresql://ada@db.example:5432,[::1]:5433/shop?sslmode=require"


@pytest.mark.parametrize(
    "declared",
    [
        hw.sinks.Database(f"postgresql://ada:{CANARY}@db.example/shop", "sales"),
        hw.sinks.Parquet(f"sftp://ada:{CANARY}@db.example/files"),
        hw.sinks.Redis(f"redis://ada:{CANARY}@db.example", prefix="p"),
        hw.sinks.Webhook(f"https://ada:{CANARY}@db.example"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_declared_does_not_show_it_where_it_is_printed(declared: object) -> None:
    assert CANARY not in f"{declared!r} {declared}"


@given(st.text(max_size=60))
def test_any_text_can_be_shown(text: str) -> None:
    assert isinstance(without_secrets(text), str)
    assert isinstance(ambiguity(f"http://{text}"), str)


def test_the_way_out_is_named() -> None:
    assert "@ as %40" in WAY_OUT
