"""A social timeline: who follows whom, joined with what they write, the newest posts of each follower as one row."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import headwater as hw
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.operators.joins import splitting
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]
LIMIT = 5


def social() -> hw.App:
    app = hw.App("social", shards=2)
    follows = app.table("follows", "follower long, followee long", key=["follower", "followee"])
    posts = app.table("posts", "id long, author long, at long", key="id")
    feed = follows.join(posts, on=follows.followee == posts.author, name="feed")
    app.view(key="follower", name="timeline")(lambda: feed.newest("follower", order="at", limit=LIMIT, into="posts"))
    return app


def expected(follows: set[tuple[int, int]], posts: dict[int, tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for follower in {one for one, _ in follows}:
        mine = [(-at, author, id) for id, (author, at) in posts.items() if (follower, author) in follows]
        if mine:
            found[follower] = [id for _, _, id in sorted(mine)[:LIMIT]]
    return found


def test_a_timeline_is_right_while_people_follow_and_unfollow_write_and_delete(
    tester: Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "HOT_ROWS", 10)
    app, random = tester(social()), Random(3)
    follows: set[tuple[int, int]] = set()
    posts: dict[int, tuple[int, int]] = {}
    for number in range(2):
        changes: list[dict[str, Any]] = []
        for _ in range(120):
            # Few are followed by many.
            pair = random.randrange(30), min(int(random.paretovariate(1.0)), 20)
            follows.add(pair)
            changes.append({"follower": pair[0], "followee": pair[1]})
        app.feed("follows", changes)
        fresh = {number * 1000 + place: (random.randint(1, 20), random.randrange(50)) for place in range(60)}
        posts |= fresh
        app.feed("posts", [{"id": id, "author": author, "at": at} for id, (author, at) in fresh.items()], key="id")
        for id in random.sample(sorted(posts), 10 * number):
            del posts[id]
            app.node.log.append("posts", [hw.Record(None, key=str(id).encode())])
        for follower, followee in random.sample(sorted(follows), 20 * number):
            follows.discard((follower, followee))
            key = f'{{"follower": {follower}, "followee": {followee}}}'.encode()
            app.node.log.append("follows", [hw.Record(None, key=key)])
        app.run()
        timelines = {row["follower"]: [post["id"] for post in row["posts"]] for row in app.rows("timeline")}
        assert timelines == expected(follows, posts)
    assert app.prove("timeline").different == 0
    (batches,) = (app.node.data / "flows" / "social").glob("*/batches")
    split = JobFolder(batches.parent).finished(0)
    assert split is not None
    # Worked on by both tasks in the batch behind it.
    assert {one.key for one in split.hot["feed"]} >= {"1", "2"}
    with app.view("timeline") as view:
        assert view.get(1) is not None
