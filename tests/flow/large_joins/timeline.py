"""A social timeline: a power-law graph, posts, deletes, follows and unfollows, against SQL at three positions.

Few are followed by very many: the most popular by more than half of all. View and oracle are compared whole, each
follower's list in its order; then timelines are read one by one.
"""

import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.kafka.client import Client
from headwater.flow.operators.joins import splitting
from headwater.flow.run.app_tester import AppTester
from headwater.record import TopicPartition
from headwater.testing import running_app
from tests.flow.large_joins.topics import Advance, Numbers, joined, percentiles, produce, text

LIMIT = 100
FOLLOWS_OF_ONE = 5
POSITIONS = 3
READS = 1000
ROWS_PER_BATCH = 200_000
SKEW = 1.3
"""How much more popular the first are than those behind them."""
DAY_MS = 1_767_225_600_000

ORACLE = """
SELECT follower, id FROM (
    SELECT follower, id, row_number() OVER (PARTITION BY follower ORDER BY at DESC, followee, id) AS place
    FROM follows JOIN posts ON followee = author
) WHERE place <= ? ORDER BY follower, place
"""
GROUPED = "SELECT follower, count(*) FROM follows JOIN posts ON followee = author GROUP BY follower"


@dataclass
class Outcome:
    anomalies: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def declare() -> hw.App:
    app = hw.App("social", shards=2)
    follows = app.table("follows", "follower long, followee long", key=["follower", "followee"])
    posts = app.table("posts", "id long, author long, at long", key="id")
    feed = follows.join(posts, on=follows.followee == posts.author, name="feed")
    app.view(key="follower", name="timeline")(lambda: feed.newest("follower", order="at", limit=LIMIT, into="posts"))
    return app


class Graph:
    """Who follows whom and what was written, as SQLite has it, and each change as a record."""

    def __init__(self, users: int, seed: int) -> None:
        self.users, self._random = users, np.random.default_rng(seed)
        self.tables = sqlite3.connect(":memory:")
        self.tables.execute("CREATE TABLE follows (follower, followee, PRIMARY KEY (follower, followee)) WITHOUT ROWID")
        self.tables.execute("CREATE INDEX followers ON follows (followee)")
        self.tables.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, author, at)")
        self.tables.execute("CREATE INDEX authors ON posts (author)")
        self._next_post = 0

    def follow(self, count: int) -> Numbers:
        """Pairs that are new."""
        popular = (self._random.zipf(SKEW, count) - 1) % self.users
        pairs = np.unique(np.stack([self._random.integers(0, self.users, count), popular], axis=1), axis=0)
        self.tables.executemany("INSERT OR IGNORE INTO follows VALUES (?, ?)", pairs.tolist())
        return pairs

    def write(self, count: int) -> Numbers:
        """Posts, most of them by somebody few have heard of."""
        ids = np.arange(self._next_post, self._next_post + count)
        self._next_post += count
        authors = self._random.integers(0, self.users, count)
        authors[: min(20, count)] = np.arange(min(20, count)) % 4  # five of each of the most popular
        posts = np.stack([ids, authors, self._random.integers(0, 10**6, count)], axis=1)
        self.tables.executemany("INSERT INTO posts VALUES (?, ?, ?)", posts.tolist())
        return posts

    def unfollow(self, share: float) -> Numbers:
        gone = self._some("SELECT follower, followee FROM follows", share)
        self.tables.executemany("DELETE FROM follows WHERE follower = ? AND followee = ?", gone.tolist())
        return gone

    def delete(self, share: float) -> Numbers:
        gone = self._some("SELECT id FROM posts", share)
        self.tables.executemany("DELETE FROM posts WHERE id = ?", gone.tolist())
        return gone

    def _some(self, query: str, share: float) -> Numbers:
        rows = np.array(self.tables.execute(query).fetchall(), np.int64)
        return rows[self._random.random(len(rows)) < share]


def run(users: int, seed: int, folder: Path, *, fed: Advance, processed: Advance) -> Outcome:
    outcome, graph = Outcome(), Graph(users, seed)
    with running_app(declare(), folder / "data", spark=True) as tester:
        for topic in ("follows", "posts"):
            tester.node.log.create_topic(topic)
        with Client(tester.node.kafka_address) as client:
            for position in range(POSITIONS):
                feed(client, graph, users, position, fed)
                began = time.perf_counter()
                for account in tester.run(rows_per_batch=ROWS_PER_BATCH):
                    processed(account.rows_in)
                outcome.figures[f"seconds of position {position + 1}"] = round(time.perf_counter() - began, 1)
                outcome.anomalies += wrong_in(tester, graph, position)
        outcome.anomalies += check_popular(tester, graph)
        outcome.figures |= {"pairs": pairs_of(graph), **read_timelines(tester, users, seed)}
    return outcome


def rows_fed(users: int) -> int:
    """About; a pair that is drawn twice is fed once."""
    return users * FOLLOWS_OF_ONE + users


def feed(client: Client, graph: Graph, users: int, position: int, fed: Advance) -> None:
    """Half at first, a quarter each time behind that; and then one in twenty goes."""
    share = 0.5 if position == 0 else 0.25
    pairs, posts = graph.follow(int(users * FOLLOWS_OF_ONE * share)), graph.write(int(users * share))
    _put(client, "follows", _keys(pairs), _follows(pairs), position, fed)
    _put(client, "posts", text(posts[:, 0]).cast(pa.binary()), _posts(posts), position, fed)
    unfollowed, deleted = graph.unfollow(0.05), graph.delete(0.05)
    _put(client, "follows", _keys(unfollowed), pa.nulls(len(unfollowed), pa.binary()), position, fed)
    _put(client, "posts", text(deleted[:, 0]).cast(pa.binary()), pa.nulls(len(deleted), pa.binary()), position, fed)


def _put(client: Client, topic: str, keys: pa.Array, values: pa.Array, position: int, fed: Advance) -> None:
    times_ms = np.full(len(values), DAY_MS + position)
    produce(client, TopicPartition(topic, 0), keys, values, times_ms, fed)


def _follows(pairs: Numbers) -> pa.Array:
    return joined('{"follower": ', text(pairs[:, 0]), ', "followee": ', text(pairs[:, 1]), "}")


_keys = _follows


def _posts(posts: Numbers) -> pa.Array:
    pieces = ['{"id": ', text(posts[:, 0]), ', "author": ', text(posts[:, 1]), ', "at": ', text(posts[:, 2]), "}"]
    return joined(*pieces)


def wrong_in(tester: AppTester, graph: Graph, position: int) -> list[str]:
    wanted: dict[int, list[int]] = {}
    for follower, id in graph.tables.execute(ORACLE, (LIMIT,)):
        wanted.setdefault(follower, []).append(id)
    counted = dict(graph.tables.execute(GROUPED).fetchall())
    assert {follower: min(count, LIMIT) for follower, count in counted.items()} == {
        follower: len(ids) for follower, ids in wanted.items()
    }, "the oracle contradicts itself"
    held = {row["follower"]: [post["id"] for post in row["posts"]] for row in tester.rows("timeline")}
    wrong = [follower for follower in {*wanted, *held} if wanted.get(follower) != held.get(follower)]
    return [
        f"position {position + 1}: the timeline of {one} is {held.get(one)}, and SQL says {wanted.get(one)}"
        for one in sorted(wrong)[:5]
    ] + ([f"position {position + 1}: {len(wrong):,} timelines differ"] if wrong else [])


def pairs_of(graph: Graph) -> int:
    (count,) = graph.tables.execute("SELECT count(*) FROM follows JOIN posts ON followee = author").fetchone()
    return int(count)


def check_popular(tester: AppTester, graph: Graph) -> list[str]:
    """Whoever has very many followers must have been noticed, and is split."""
    (batches,) = (tester.node.data / "flows" / "social").glob("*/batches")
    record = JobFolder(batches.parent).last_finished()
    noticed = {one.key for one in record.hot.get("feed", ())} if record else set()
    query = "SELECT followee, count(*) AS n FROM follows GROUP BY followee HAVING n >= ?"
    popular = graph.tables.execute(query, (splitting.HOT_ROWS,)).fetchall()
    return [f"user {one} has {n:,} followers, and was not noticed" for one, n in popular if str(one) not in noticed]


def read_timelines(tester: AppTester, users: int, seed: int) -> dict[str, Any]:
    chosen = np.random.default_rng(seed + 1).integers(0, users, READS).tolist()
    seconds = []
    with tester.view("timeline") as view:
        view.get(chosen[0])
        for user in chosen:
            began = time.perf_counter()
            view.get(user)
            seconds.append(time.perf_counter() - began)
    return {"reads": READS, **{f"read {name} ms": value for name, value in percentiles(seconds).items()}}
