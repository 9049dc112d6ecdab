"""Joins as a job keeps them: against what Spark's own join says of the whole log."""

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]


def social() -> hw.App:
    """Who follows whom, what they write, and who they are."""
    app = hw.App("social", shards=2)
    follows = app.table("follows", "follower string, followee string, since long", key=["follower", "followee"])
    posts = app.table("posts", "id long, author string, text string", key="id")
    people = app.table("people", "id string, town string", key="id")
    feed = follows.join(posts, on=follows.followee == posts.author, name="feed")
    app.view(key=["follower", "followee", "id"], name="feed")(lambda: feed)
    app.view(key="id", name="signed")(lambda: posts.join(people, on=posts.author == people["id"], how="left"))
    app.view(key=["follower", "followee", "id"], name="everything")(lambda: follows.join(
        posts.where("text <> 'spam'"), on=follows.followee == posts.author, how="full"
    ))  # fmt: skip
    app.topic("feed-changes")(lambda: feed.select("follower", "followee", "id", "text"))
    return app


def follow(follower: str, followee: str, since: int = 1) -> dict[str, Any]:
    return {"follower": follower, "followee": followee, "since": since}


def post(number: int, author: str, text: str = "hello") -> dict[str, Any]:
    return {"id": number, "author": author, "text": text}


VIEWS = ("feed", "signed", "everything")


def feed_of(social: AppTester) -> list[tuple[Any, ...]]:
    return [(row["follower"], row["followee"], row["id"], row["text"]) for row in social.rows("feed")]


def test_tables_are_joined_and_kept_so_by_every_change_of_either(tester: Tester) -> None:
    app = tester(social())
    app.feed("follows", [follow("ann", "cem"), follow("bob", "cem"), follow("ann", "dee")])
    app.feed("posts", [post(1, "cem"), post(2, "cem", "again"), post(3, "eve")])
    app.feed("people", [{"id": "cem", "town": "Bern"}])
    app.run()
    one, two = ("cem", 1, "hello"), ("cem", 2, "again")
    assert feed_of(app) == [("ann", *one), ("ann", *two), ("bob", *one), ("bob", *two)]
    assert [app.prove(view).different for view in VIEWS] == [0, 0, 0]

    app.feed("posts", [post(2, "eve", "moved"), post(1, "cem", "spam")])
    app.feed("follows", [follow("bob", "eve"), follow("ann", "cem", 2)])
    app.feed("people", [{"id": "eve", "town": "Oslo"}, {"id": "cem", "town": "Rome"}])
    app.run()
    spam = ("cem", 1, "spam")
    assert feed_of(app) == [("ann", *spam), ("bob", *spam), ("bob", "eve", 2, "moved"), ("bob", "eve", 3, "hello")]
    assert [(row["id"], row["town"]) for row in app.rows("signed")] == [(1, "Rome"), (2, "Oslo"), (3, "Oslo")]

    delete(app, "posts", "3")
    delete(app, "follows", '{"follower": "bob", "followee": "cem"}')
    delete(app, "people", "eve")
    app.run()
    assert feed_of(app) == [("ann", *spam), ("bob", "eve", 2, "moved")]
    assert [(row["id"], row["town"]) for row in app.rows("signed")] == [(1, "Rome"), (2, None)]
    assert [app.prove(view).different for view in VIEWS] == [0, 0, 0]


def delete(app: AppTester, topic: str, key: str) -> None:
    app.node.log.append(topic, [hw.Record(None, key=key.encode())])


def test_a_row_that_moves_to_another_join_key_is_one_change(tester: Tester) -> None:
    app = hw.App("shop", shards=4)
    orders = app.table("orders", "id long, buyer string", key="id")
    people = app.table("people", "name string, town string", key="name")
    app.topic("addressed")(lambda: orders.join(people, on=orders.buyer == people.name))
    shop = tester(app)
    shop.feed("orders", [{"id": 1, "buyer": "ann"}])
    shop.feed("people", [{"name": "ann", "town": "Bern"}, {"name": "bob", "town": "Rome"}])
    shop.run()
    shop.feed("orders", [{"id": 1, "buyer": "bob"}])
    shop.run()
    created, moved = shop.values("addressed")
    assert (created["op"], created["after"]) == ("c", {"id": 1, "buyer": "ann", "town": "Bern"})
    assert (moved["op"], moved["before"], moved["after"]["town"]) == ("u", created["after"], "Rome")


def test_rows_whose_key_is_null_meet_none(tester: Tester) -> None:
    app = hw.App("shop", shards=2)
    orders = app.table("orders", "id long, buyer string, paid long", key="id")
    people = app.table("people", "number long, name string, credit long", key="number")
    joined = orders.join(people, on=(orders.buyer == people.name) & (orders.paid <= people.credit), how="full")
    app.view(key=["id", "number"], name="joined")(lambda: joined)
    shop = tester(app)
    shop.feed("orders", [{"id": 1, "buyer": None, "paid": 1}, {"id": 2, "buyer": "ann", "paid": 5}])
    shop.feed("people", [{"number": 7, "name": None, "credit": 9}, {"number": 8, "name": "ann", "credit": 4}])
    shop.run()
    pairs = {(row["id"], row["number"]) for row in shop.rows("joined")}
    assert pairs == {(1, None), (2, None), (None, 7), (None, 8)}
    shop.feed("people", [{"number": 8, "name": "ann", "credit": 5}])
    shop.run()
    assert (2, 8) in [(row["id"], row["number"]) for row in shop.rows("joined")]
    assert shop.prove("joined").different == 0


def refused(tester: Tester, orders: str, people: str, **join: Any) -> str:
    app = hw.App("shop")
    left, right = app.table("orders", orders, key="id"), app.table("people", people, key="name")
    app.view(key="id", name="joined")(lambda: left.join(right, **{"on": left.buyer == right.name, **join}))
    with pytest.raises(InvalidDeclaration) as error:
        tester(app).run()
    return str(error.value)


@pytest.mark.on_spark
def test_what_cannot_be_joined_is_told_in_a_sentence_with_its_place(tester: Tester) -> None:
    types = refused(tester, "id long, buyer long", "name string")
    assert "column buyer of the left is bigint, and column name of the right is string" in types
    assert "test_joins.py" in types
    assert "both inputs of the join" in refused(
        tester, "id long, buyer string, town string", "name string, own string", prefix="t"
    )
    assert "the left has no column buyer. There are: id" in refused(tester, "id long", "name string")
    assert "cannot be 'outer'" in refused(tester, "id long, buyer string", "name string", how="outer")


def test_a_prefix_tells_columns_of_the_same_name_apart(tester: Tester) -> None:
    app = hw.App("shop", shards=2)
    people = app.table("people", "name string, boss string, town string", key="name")
    both = people.join(people, on=people.boss == people.name, prefix="boss_", how="left")
    app.view(key="name", name="with_boss")(lambda: both.select("name", "boss", "town", "boss_town", "boss_boss"))
    firm = tester(app)
    firm.feed("people", [{"name": "ann", "boss": "bob", "town": "Bern"}, {"name": "bob", "boss": None, "town": "Rome"}])
    firm.run()
    assert [(row["name"], row["boss_town"]) for row in firm.rows("with_boss")] == [("ann", "Rome"), ("bob", None)]
    assert firm.prove("with_boss").different == 0
