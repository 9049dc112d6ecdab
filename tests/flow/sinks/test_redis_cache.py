"""Entries of a cache, in a real Redis."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis

from headwater.errors import JobRefused, StoreUnavailable
from headwater.flow.sinks.redis_cache import MARK, RedisSink, connected
from headwater.flow.sinks.sink import Sink
from tests.contracts.sink import JOB, Faults, SinkContract, mark, opened
from tests.servers.redis_server import running_redis

PREFIXES = (f"numbers{number}:" for number in count())


class StoppingPipe:
    def __init__(self, pipe: Any, faults: Faults) -> None:
        self._pipe, self._faults = pipe, faults

    def __enter__(self) -> "StoppingPipe":
        self._pipe.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._pipe.__exit__(*failure)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._pipe, name)
        if name not in ("watch", "get", "execute"):
            return method

        def counted(*words: Any) -> Any:
            self._faults.before()
            answer = method(*words)
            self._faults.behind()
            return answer

        return counted


class StoppingClient:
    def __init__(self, client: Any, faults: Faults) -> None:
        self._client, self._faults = client, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def pipeline(self, transaction: bool) -> StoppingPipe:
        return StoppingPipe(self._client.pipeline(transaction=transaction), self._faults)


class RedisPlace:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    key: Sequence[str] = ("number",)

    def __init__(self, url: str, expire_ms: int | None = None) -> None:
        self.url, self.prefix, self._expire_ms = url, next(PREFIXES), expire_ms
        self.client = redis.Redis.from_url(url)
        self._opened: list[Sink] = []

    def close(self) -> None:
        self.client.close()
        for sink in self._opened:
            sink.close()

    def open(self, faults: Faults | None = None) -> Sink:
        client = connected(self.url)
        sink = RedisSink(self.url, prefix=self.prefix, name="numbers", expire_ms=self._expire_ms, client=client)
        self._opened.append(sink)
        if faults is not None:
            sink.prepare(self.schema, self.key)  # all that is counted comes after it
            sink._client = StoppingClient(client, faults)
        return sink

    def batch(self, numbers: Iterable[int], operation: str = "c") -> pa.Table:
        listed = list(numbers)
        columns = {"number": listed, "text": [str(one) for one in listed], "_op": [operation] * len(listed)}
        return pa.table(columns, schema=self.schema.append(pa.field("_op", pa.string())))

    def names(self) -> list[str]:
        found = [key.decode().removeprefix(self.prefix) for key in self.client.scan_iter(f"{self.prefix}*", count=5000)]
        return [name for name in found if name != MARK]

    def numbers(self) -> list[int]:
        names = self.names()
        entries: Any = self.client.mget([self.prefix + name for name in names]) if names else []
        rows = [json.loads(entry) for entry in entries]
        assert all(row == {"number": int(name), "text": name} for name, row in zip(names, rows, strict=True))
        return sorted(row["number"] for row in rows)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def place(server: str) -> Iterator[RedisPlace]:
    place = RedisPlace(server)
    yield place
    place.close()


class TestRedisSink(SinkContract):
    pass


def test_an_entry_goes_with_its_row(place: RedisPlace) -> None:
    sink = opened(place)
    sink.write(mark(0), place.batch([1, 2, 3]))
    sink.write(mark(1), place.batch([2], operation="d"))
    assert place.numbers() == [1, 3]


def test_entries_expire_unless_a_row_renews_them(server: str) -> None:
    place = RedisPlace(server, expire_ms=60_000)
    sink = opened(place)
    sink.write(mark(0), place.batch([1]))
    assert 0 < place.client.pttl(f"{place.prefix}1") <= 60_000
    assert place.client.pttl(place.prefix + MARK) == -1, "what was written must not be forgotten with the entries"
    place.close()


def test_entries_of_keys_of_several_columns_do_not_mix(place: RedisPlace) -> None:
    sink = RedisSink(place.url, prefix=place.prefix, name="pairs", client=place.client)
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    sink.prepare(schema, ("a", "b"))
    rows = [{"a": "x:y", "b": "z"}, {"a": "x", "b": "y:z"}, {"a": "x", "b": None}, {"a": "x", "b": "%00"}]
    sink.write(mark(0), pa.Table.from_pylist(rows, schema=schema))
    assert len(place.names()) == 4


def test_a_row_named_like_the_mark_does_not_take_its_place(place: RedisPlace) -> None:
    sink = RedisSink(place.url, prefix=place.prefix, name="words", client=place.client)
    schema = pa.schema([("word", pa.string())])
    sink.prepare(schema, ("word",))
    sink.write(mark(0), pa.table({"word": [MARK, "headwater", "%00"]}, schema=schema))
    assert sink.committed(JOB) == 0


def test_a_redis_that_lost_batches_is_told_from_one_that_has_all(place: RedisPlace) -> None:
    sink = opened(place)
    sink.write(mark(3), place.batch([1]))
    with pytest.raises(JobRefused, match="has lost what was between"):
        sink.write(mark(5), place.batch([2]))


def test_another_output_of_the_same_job_is_refused_and_not_taken_for_a_repetition(place: RedisPlace) -> None:
    opened(place).write(mark(0), place.batch([1]))
    other = RedisSink(place.url, prefix=place.prefix, name="copies", client=place.client)
    other.prepare(place.schema, place.key)
    assert other.committed(JOB) is None
    with pytest.raises(JobRefused, match="written by output numbers of the same job, not by copies"):
        other.write(mark(0), place.batch([2]))
    assert place.numbers() == [1]


def test_rows_without_a_key_are_refused_before_the_first_batch(place: RedisPlace) -> None:
    with pytest.raises(JobRefused, match="no key"):
        place.open().prepare(place.schema, ())


def test_a_redis_that_is_away_is_said_to_be_without_its_password(tmp_path: Path) -> None:
    sink = RedisSink("redis://user:s3cret@127.0.0.1:1/0", prefix="p:", name="numbers")
    with pytest.raises(StoreUnavailable) as away:
        sink.prepare(RedisPlace.schema, ("number",))
    assert "s3cret" not in str(away.value)
