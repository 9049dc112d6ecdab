"""A view is proved after retention has removed its first records, if a proof has left a checkpoint before."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import FlowError, HeadwaterError
from headwater.flow.proof.proofs import Unproved, prove_each
from headwater.flow.proof.verification import Verified, Wanted
from headwater.flow.run.app_tester import AppTester
from headwater.views.store import open_store

Tester = Callable[[hw.App], AppTester]


def shop(least: int = 0) -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", "id long, user string, amount decimal(12,2), weight double, at timestamp", time="at")
    some = orders.where(f"amount >= {least}")
    numbers = ("count(*) as n", "sum(amount) as spent", "min(amount) as low", "max(id) as newest", "count(user) as c")
    app.view(key="user", name="spent")(lambda: some.by("user").agg(*numbers).where("n > 1"))
    app.view(key=[], name="all")(lambda: orders.agg("count(*) as n", "sum(amount) as spent"))
    app.view(key="user", name="last")(lambda: orders.latest("user"))
    app.view(key="user", name="heavy")(lambda: orders.by("user").agg("sum(weight) as w"))
    app.view(key="user", name="averages")(lambda: orders.by("user").agg("avg(amount) as a"))
    app.view(key="user", name="first")(lambda: orders.dedupe("id", within="1 day").by("user").agg("count(*) as n"))
    return app


KEPT = ["spent", "all", "last"]


def order(id: int, user: str | None, amount: str, minute: int) -> dict[str, object]:
    return {"id": id, "user": user, "amount": amount, "weight": 0.5, "at": f"2026-03-01T09:{minute:02}:00Z"}


def prove(app: AppTester, *names: str, keep: bool = False) -> dict[str, Verified | Unproved]:
    data, address = app.node.data, app.node.kafka_address
    wanted = Wanted(checkpoint=keep)
    found = prove_each(app.app, names, app.session, data, address, direct=True, wanted=wanted)
    return {one.view: one for one in found}


def forget_records(app: AppTester, topic: str, before: int) -> None:
    app.node.log.partition(topic, 0).delete_records(before)


def first_rows(app: AppTester) -> None:
    app.feed("orders", [order(1, "ann", "2.50", 1), order(2, "bob", "7.00", 9), order(3, None, "1.00", 2)])
    app.feed("orders", [order(4, "ann", "3.25", 3), order(5, "bob", "0.50", 4)])
    app.run()


def test_what_retention_has_removed_is_in_the_checkpoint(tester: Tester) -> None:
    app = tester(shop())
    first_rows(app)
    left = prove(app, keep=True)
    assert {name for name, one in left.items() if isinstance(one, Verified) and one.kept} == set(KEPT)
    unkept = {name: one.unkept for name, one in left.items() if isinstance(one, Verified) and one.unkept}
    assert {name: why.split(": ")[1].split(",")[0].split(" at ")[0] for name, why in unkept.items()} == {
        "heavy": "column w is a sum", "averages": "column a is a avg", "first": "it is made by dedupe",
    }  # fmt: skip
    # The newest of bob by event time is in the checkpoint; ann's and the others' come after it.
    app.feed("orders", [order(6, "ann", "9.00", 30), order(7, "bob", "4.00", 5), order(8, "cid", "1.00", 6)])
    app.feed("orders", [order(9, None, "0.25", 7)])
    app.run()
    forget_records(app, "orders", 5)
    found = prove(app, *KEPT, "heavy", keep=True)
    assert isinstance(found["heavy"], Unproved)
    assert {name: (one.result, getattr(one, "since", None)) for name, one in found.items() if name in KEPT} == {
        name: ("proved", {"orders": {0: 5}}) for name in KEPT
    }
    # Each has left the next one.
    app.feed("orders", [order(10, "ann", "1.00", 40)])
    app.run()
    forget_records(app, "orders", 9)
    assert {one.result for one in prove(app, *KEPT).values()} == {"proved"}
    rows = {row["user"]: (row["n"], str(row["spent"]), row["newest"]) for row in app.rows("spent")}
    assert rows == {"ann": (4, "15.75", 10), "bob": (3, "11.50", 7), None: (2, "1.25", 9)}
    assert len(list((app.node.data / "flows").rglob("proved/*.parquet"))) == len(KEPT), "the one before is removed"


@pytest.mark.parametrize("view", KEPT)
def test_a_row_that_is_wrong_is_found_with_a_checkpoint(tester: Tester, view: str) -> None:
    app = tester(shop())
    first_rows(app)
    assert prove(app, view, keep=True)[view].result == "proved"
    app.feed("orders", [order(6, "ann", "9.00", 30)])
    app.run()
    forget_records(app, "orders", 5)
    store = open_store(app.node.data, "shop")
    try:
        with store._writing():  # type: ignore[attr-defined]
            store._run(f'UPDATE "{view}" SET "{"id" if view == "last" else "n"}" = 77')  # type: ignore[attr-defined]
    finally:
        store.close()
    found = prove(app, view, keep=True)[view]
    assert isinstance(found, Verified)
    assert (found.result, found.kept) == ("different", False)


def test_a_checkpoint_that_is_of_no_use_is_said(tester: Tester) -> None:
    app = tester(shop())
    first_rows(app)
    prove(app, "spent", keep=True)
    app.feed("orders", [order(6, "ann", "9.00", 30), order(7, "ann", "9.00", 30)])
    app.run()
    forget_records(app, "orders", 6)
    with pytest.raises(FlowError, match="of no use: records of orders/0 behind it are gone, too"):
        app.prove("spent")
    other = tester(shop(least=1))
    with pytest.raises(FlowError, match="of no use: it was made from other code"):
        other.prove("spent")


def test_a_damaged_checkpoint_is_refused(tester: Tester) -> None:
    app = tester(shop())
    first_rows(app)
    prove(app, "spent", keep=True)
    forget_records(app, "orders", 5)
    (file,) = (app.node.data / "flows").rglob("proved/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(HeadwaterError, match="its checksum is not that of its note"):
        app.prove("spent")


def test_a_table_keeps_that_a_row_was_deleted(tester: Tester, tmp_path: Path) -> None:
    declared = hw.App("shop", shards=2)
    users = declared.table("users", "id long, town string", key="id")
    declared.view(key="id", name="users")(lambda: users.select("id", "upper(town) as town"))
    app = tester(declared)
    app.feed_rows("users", [{"id": 1, "town": "x"}, {"id": 2, "town": "y"}], deleted=[2])
    app.run()
    prove(app, "users", keep=True)
    app.feed_rows("users", [{"id": 3, "town": "z"}], deleted=[1])
    app.run()
    forget_records(app, "users", 3)
    assert app.rows("users") == [{"id": 3, "town": "Z"}]
    assert app.prove("users").result == "proved"
    assert json.dumps(app.prove("users").since) == '{"users": {"0": 3}}'
