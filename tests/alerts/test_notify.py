"""The targets of an alert, as an app declares them."""

from collections.abc import Callable

import pytest

from headwater.alerts.notify import Target, email, from_json, to_json, topic, webhook
from headwater.errors import InvalidDeclaration

MAIL = {"sender": "alerts@example.org", "host": "mail.example.org"}
TARGETS: list[Target] = [
    webhook("https://hooks.example/T0", secret="s3cret", allow_private=True),
    email(["ada@example.org", "bob@example.org"], username="u", password="p4ss", **MAIL),  # type: ignore[arg-type]
    topic("on-call"),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name.split()[0])
def test_a_target_is_kept_and_read_back_as_it_was(target: Target) -> None:
    assert from_json(to_json(target)) == target


def test_neither_the_name_nor_the_repr_shows_a_secret() -> None:
    shown = "".join(f"{one!r} {one.name}" for one in TARGETS)
    assert not [secret for secret in ("s3cret", "p4ss", "/T0") if secret in shown]


def test_two_addresses_of_one_host_have_two_names() -> None:
    assert webhook("https://hooks.example/a").name != webhook("https://hooks.example/b").name


@pytest.mark.parametrize(
    "make",
    [
        lambda: webhook("hooks.example"),
        lambda: webhook("https://x/", secret="whsec_?"),
        lambda: webhook("https://x/", timeout_seconds=0),
        lambda: webhook("https://x/", retry_hours=-1),
        lambda: email("Ada <ada@example.org>", **MAIL),  # type: ignore[arg-type]
        lambda: email("ada@example.org\nBcc: eve@example.org", **MAIL),  # type: ignore[arg-type]
        lambda: email("=?utf-8?q?=0d=0aBcc:eve?=@example.org", **MAIL),  # type: ignore[arg-type]
        lambda: email("ada@=?utf-8?q?x?=", **MAIL),  # type: ignore[arg-type]
        lambda: email("friends:ada@example.org", **MAIL),  # type: ignore[arg-type]
        lambda: email("ada(\x00)@example.org", **MAIL),  # type: ignore[arg-type]
        lambda: email([], **MAIL),  # type: ignore[arg-type]
        lambda: email("a@b", password="p", security="none", **MAIL),  # type: ignore[arg-type]
        lambda: email("a@b", username="u", password="gr\u00fcn", **MAIL),  # type: ignore[arg-type]
        lambda: email("a@b", security="ssl3", **MAIL),  # type: ignore[arg-type]
        lambda: topic("no such/topic"),
        lambda: topic(".."),
    ],
)
def test_a_target_that_cannot_be_notified_is_refused_when_it_is_declared(make: Callable[[], Target]) -> None:
    with pytest.raises(InvalidDeclaration):
        make()
