"""A result that is followed: whatever it was made of, the changes add up to what it is now."""

from collections import Counter
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.failure import Failure
from headwater.cli.shell.following import differences, followed

ROWS = st.lists(st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.sampled_from([None, "x"])}), max_size=6)


def counted(rows: list[dict[str, Any]]) -> "Counter[tuple[Any, ...]]":
    return Counter(tuple(row.values()) for row in rows)


@given(ROWS, ROWS)
def test_the_changes_make_the_result_before_into_the_one_now(before: list[Any], now: list[Any]) -> None:
    found = counted(before)
    for op, row in differences(before, now):
        found[tuple(row.values())] += 1 if op == "insert" else -1
        assert found[tuple(row.values())] >= 0, "what is removed was there"
    assert +found == counted(now)


def answers(*said: object) -> Any:
    """A node that gives these answers, one after the other; an exception is raised."""
    left: Iterator[object] = iter(said)
    asked: list[dict[str, Any]] = []

    def ask(**more: Any) -> Any:
        asked.append(more)
        one = next(left)
        if isinstance(one, BaseException):
            raise one
        return one

    ask.asked = asked  # type: ignore[attr-defined]
    return ask


def answer(version: str, *values: int, cut: bool = False) -> dict[str, Any]:
    return {"rows": [{"n": value} for value in values], "version": version, "cut": cut, "position": {}, "views": {}}


UNCHANGED = {"unchanged": True, "version": ""}


def test_a_restarted_node_is_asked_for_what_changed_meanwhile() -> None:
    ask = answers(answer("v1", 1, 2), ConnectionRefusedError(), HTTPException("503"), answer("v2", 2, 3), UNCHANGED)
    found = list(followed(ask, 0.0))
    assert [one.changes for one in found] == [
        [("insert", {"n": 1}), ("insert", {"n": 2})],
        [("delete", {"n": 1}), ("insert", {"n": 3})],
    ]
    assert [one.first for one in found] == [True, False]
    assert [said.get("after") for said in ask.asked] == [None, "v1", "v1", "v1", "v2"]


def test_a_node_that_never_answered_is_an_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        list(followed(answers(ConnectionRefusedError()), 0.0))


def test_a_result_that_is_not_whole_cannot_be_followed() -> None:
    with pytest.raises(Failure, match="more than 2 rows"):
        list(followed(answers(answer("v1", 1, 2, cut=True)), 0.0))
