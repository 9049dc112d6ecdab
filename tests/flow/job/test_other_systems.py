"""Rows of a job in systems of other people: a cache and a webhook, over batches that fail and come again."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import headwater as hw
from headwater.capture.http.signatures import delivery_of
from headwater.clock import SystemClock
from headwater.flow.declare.sinks import SinkDeclaration
from headwater.flow.run.app_tester import AppTester
from headwater.flow.sinks.redis_cache import MARK
from tests.servers.redis_server import running_redis
from tests.waiting import wait_until
from tests.webhooks.target import WebhookTarget, webhook_target

Tester = Callable[[hw.App], AppTester]

LAMP, CHAIR, TABLE = ({"id": n, "title": title, "open": True} for n, title in enumerate(("lamp", "chair", "table")))
NO_CHAIR = {**CHAIR, "open": False}


def shop(**sinks: SinkDeclaration) -> hw.App:
    """Orders that are open: one that is closed goes."""
    app = hw.App("shop", shards=1)
    orders = app.stream("orders", "id long, title string, open boolean")
    for name, sink in sinks.items():
        app.sink(sink, key="id", name=name)(lambda: orders.latest("id").where("open").select("id", "title"))
    return app


class Cache:
    def __init__(self, url: str) -> None:
        self.url, self.client = url, redis.Redis.from_url(url)

    def entries(self, prefix: str) -> dict[str, Any]:
        names = [name.decode() for name in self.client.scan_iter(f"{prefix}*")]
        found: Any = self.client.mget(names) if names else []
        return {name.removeprefix(prefix): json.loads(entry) for name, entry in zip(names, found, strict=True) if entry}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    with running_redis(tmp_path) as url:
        cache = Cache(url)
        yield cache
        cache.client.close()


def test_a_cache_follows_the_rows_of_a_job_and_takes_each_batch_once(tester: Tester, cache: Cache) -> None:
    failures = [OSError("the disk of somebody else is full")]

    def fail_once(rows: object, batch: int) -> None:
        if failures:
            raise failures.pop()

    app = shop(
        cache=hw.sinks.Redis(cache.url, prefix="order:"),
        recent=hw.sinks.Redis(cache.url, prefix="recent:", expire="2 seconds"),
        other=hw.sinks.Foreach(fail_once),
    )
    job = tester(app)
    job.feed("orders", [LAMP, CHAIR])
    with pytest.raises(hw.HeadwaterError, match="the disk of somebody else is full"):
        job.run()
    assert cache.entries("order:")["0"] == {"id": 0, "title": "lamp"}
    assert 0 < cache.client.pttl("recent:0") <= 2000
    cache.client.set("order:0", '"a batch that is in is not written again"')

    job.run()
    assert cache.entries("order:").keys() == {"0", "1", MARK}
    assert cache.entries("order:")["0"] == "a batch that is in is not written again"

    job.feed("orders", [NO_CHAIR, TABLE, {**LAMP, "title": "lantern"}])
    job.run()
    entries = cache.entries("order:")
    mark = entries.pop(MARK)
    assert entries == {"0": {"id": 0, "title": "lantern"}, "2": {"id": 2, "title": "table"}}
    assert mark["batch"] == 1
    wait_until(lambda: cache.entries("recent:").keys() == {MARK}, "entries that nothing renews are gone")
    assert all(job.account(name).balanced for name in ("cache", "recent", "other"))


def delivered(target: WebhookTarget, since: int = 0) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(one.headers["webhook-id"], json.loads(one.body)["rows"]) for one in target.taken[since:]]


def test_a_webhook_is_told_every_row_and_deletion_of_a_job_and_a_repeated_batch_under_the_same_ids(
    tester: Tester,
) -> None:
    with webhook_target(200, 400, 200) as target:
        hook = hw.sinks.Webhook(target.url, secret="s3cret", allow_private=True, rows_max=2)
        job = tester(shop(hook=hook))
        job.feed("orders", [LAMP, CHAIR, TABLE])
        with pytest.raises(hw.HeadwaterError, match="400"):
            job.run()
        job.run()
        first, refused, *again = delivered(target)
        assert again == [first, refused]
        assert sorted(row["id"] for _, rows in again for row in rows) == [0, 1, 2]
        assert len({id for id, _ in again}) == 2

        job.feed("orders", [NO_CHAIR])
        job.run()
        [(id, [row])] = delivered(target, since=4)
        assert id not in {first[0], refused[0]}
        assert (row["_op"], row["id"]) == ("d", 1)
        now_ms = SystemClock().now_ms()
        assert all(delivery_of("standard", ["s3cret"], one.headers, one.body, now_ms=now_ms) for one in target.taken)
        assert job.account("hook").balanced
