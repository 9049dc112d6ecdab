"""Rounds do harm, put it right, and end where the flows do not get on."""

from random import Random
from typing import Any
from unittest.mock import MagicMock

import pytest

from headwater.cli.failure import Failure
from headwater.clock import ManualClock
from tests.cluster import chaos
from tests.cluster.books import GroupOffsets
from tests.cluster.chaos import PATIENCE_SECONDS, Chaos, Harm
from tests.cluster.open_shop import Broken

ENDS = {("orders", 0): 5}


def play(*, separate: bool = True) -> Any:
    clock = ManualClock()
    found = MagicMock(clock=clock)
    found.servers.hosts.separate = separate
    found.wait.side_effect = lambda seconds: clock.advance(round(1000 * seconds))
    found.driver.log.exists.return_value = False
    return found


def committed(*offsets: int | Failure) -> Any:
    """What is seen, one look after the other; the last again and again."""
    left = list(offsets)

    def look(bootstrap: str) -> GroupOffsets:
        one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(one, Failure):
            raise one
        return GroupOffsets(ENDS, {"shop.a": {("orders", 0): one}})

    return look


def test_every_kind_of_harm_comes_before_any_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "group_offsets", committed(5))
    opened = play()
    rounds, seen = Chaos(opened, Random(3)), list[str]()
    names = [kind.__name__ for kind in rounds.kinds()]

    def kind(name: str) -> Any:
        def make() -> Harm:
            seen.append(name)
            return Harm(name, lambda: None, lambda: None)

        return make

    monkeypatch.setattr(rounds, "kinds", lambda: [kind(name) for name in names])
    rounds.run(2 * len(names))
    assert sorted(seen[: len(names)]) == sorted(seen[len(names) :]) == sorted(names)


def test_networks_are_cut_only_where_hosts_have_one() -> None:
    kinds = {kind.__name__ for kind in Chaos(play(), Random(1)).kinds()}
    loopback = {kind.__name__ for kind in Chaos(play(separate=False), Random(1)).kinds()}
    assert kinds - loopback == {"broker_cut", "worker_cut", "postgres_cut", "slow_link"}


def test_harm_is_put_right_when_the_flows_end_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "group_offsets", committed(5))
    opened, undone = play(), list[str]()
    rounds = Chaos(opened, Random(1))
    monkeypatch.setattr(rounds, "kinds", lambda: [lambda: Harm("harm", broken, lambda: undone.append("harm"))])
    with pytest.raises(Broken, match="the driver has ended"):
        rounds.run(1)
    assert undone == ["harm"]


def broken() -> None:
    raise Broken("the driver has ended")


def test_brokers_that_do_not_answer_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "group_offsets", committed(Failure("no broker"), 3, 4, 5))
    opened = play()
    Chaos(opened, Random(1)).run(0)
    assert opened.clock.elapsed_ms() == 4_000


def test_flows_that_stand_still_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "group_offsets", committed(4))
    monkeypatch.setattr(chaos, "last_lines", lambda log, count: "what it said last")
    with pytest.raises(
        Broken, match=rf"{PATIENCE_SECONDS} s after the start shop\.a had not got on: what it said last"
    ):
        Chaos(play(), Random(1)).run(0)
