"""Rows as entries of a cache in Redis: each batch once, entries that go with their rows.

    PREFIX KEY          the row as JSON; KEY is its key, of several columns all of them, with colons between
    PREFIX %headwater   {"job": …, "output": …, "batch": …}: whose entries these are, and the newest batch that is in.
                        No key has a percent sign before such a letter

Entries and mark change in one MULTI/EXEC that runs only if the mark is still the one that was read. A Redis that was
restored to an older moment is behind the job, and says so instead of serving old entries.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from headwater.errors import JobRefused, StoreUnavailable
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.views.changes import changes_in
from headwater.views.json_text import json_text, plain_text
from headwater.views.mark import Mark
from headwater.views.shape import Column, Shape, shape_of

MARK = "%headwater"
ENTRIES_PER_COMMAND = 1000
TIMEOUT_SECONDS = 30


def connected(url: str) -> Any:
    if why := ambiguity(url):
        raise JobRefused(f"the URL of a Redis server {why}", WAY_OUT)
    try:
        import redis
    except ModuleNotFoundError as error:
        raise JobRefused("entries in Redis need a driver that is not installed (redis)",
                         'Install it with: pip install "headwater[redis]"') from error  # fmt: skip
    return redis.Redis.from_url(url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS)


class RedisSink:
    exactly_once = True

    def __init__(self, url: str, *, prefix: str, name: str, expire_ms: int | None = None, client: Any = None) -> None:
        self.name = name
        self._where, self._prefix, self._expire_ms = without_secrets(url), prefix, expire_ms
        self._client = connected(url) if client is None else client
        self._shape: Shape | None = None

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        if not key:
            raise JobRefused(
                f'"{self.name}" goes to Redis and has no key to find its entries by',
                "Return a table from it: .latest(...), or .by(...).agg(...).",
            )
        self._shape = shape_of(self.name, schema, key)
        self._mark()  # StoreUnavailable now rather than after the first batch was worked out

    def committed(self, job: str) -> int | None:
        mark = self._mark()
        return int(mark["batch"]) if mark.get("job") == job and mark.get("output", self.name) == self.name else None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        with self._translated(), self._client.pipeline(transaction=True) as pipe:
            pipe.watch(self._prefix + MARK)
            stored = _read(pipe.get(self._prefix + MARK))
            if not self._takes(stored, mark):
                return False
            pipe.multi()
            for command in self._commands(rows):
                pipe.execute_command(*command)
            known = {"job": mark.job, "output": self.name, "batch": mark.batch}
            pipe.set(self._prefix + MARK, json.dumps(known))
            # WatchError: another process has written the mark since; the same call may be made again.
            pipe.execute()
        return True

    def close(self) -> None:
        self._client.close()

    def _takes(self, stored: dict[str, Any], mark: Mark) -> bool:
        if stored.get("job", mark.job) != mark.job:
            raise JobRefused(
                f"entries {self._prefix}* in {self._where} are written by job {stored['job']}, not by {mark.job}",
                "Give one of them another prefix.",
            )
        if stored.get("output", self.name) != self.name:
            raise JobRefused(
                f"entries {self._prefix}* in {self._where} are written by output {stored['output']} of the same job, "
                f"not by {self.name}",
                "Give one of them another prefix.",
            )
        if stored and mark.batch > int(stored["batch"]) + 1:
            raise JobRefused(
                f"entries {self._prefix}* in {self._where} end at batch {stored['batch']}, and the next one is "
                f"{mark.batch}: Redis has lost what was between",
                f"Restore it, or delete {self._prefix}* there and let the entries come again with their rows.",
            )
        return mark.batch > int(stored.get("batch", -1))

    def _commands(self, rows: pa.Table) -> Iterator[list[Any]]:
        shape = self._shape or shape_of(self.name, rows.schema, ())
        changes = changes_in(shape, rows, lambda column, values: values)
        names = self._names(shape, changes.present)
        entries = json_text(changes.present.to_struct_array().combine_chunks()).to_pylist()
        deleted = self._names(shape, changes.deleted)
        for start in range(0, len(deleted), ENTRIES_PER_COMMAND):
            yield ["DEL", *deleted[start : start + ENTRIES_PER_COMMAND]]
        if self._expire_ms is not None:
            yield from (["SET", name, entry, "PX", self._expire_ms] for name, entry in zip(names, entries, strict=True))
            return
        for start in range(0, len(names), ENTRIES_PER_COMMAND):
            part = slice(start, start + ENTRIES_PER_COMMAND)
            yield ["MSET", *(word for pair in zip(names[part], entries[part], strict=True) for word in pair)]

    def _names(self, shape: Shape, rows: pa.Table) -> list[str]:
        columns = [_key_texts(column, rows.column(column.name)) for column in shape.key_columns]
        return [self._prefix + name for name in entry_names(columns)]

    def _mark(self) -> dict[str, Any]:
        with self._translated():
            return _read(self._client.get(self._prefix + MARK))

    def _translated(self) -> "Translated":
        return Translated(self._where)


class Translated:
    """What the driver raises, in our words."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and type(error).__module__.startswith("redis"):
            raise StoreUnavailable(self._where, f"{type(error).__name__}: {error}") from error


def entry_names(columns: Sequence[Sequence[str | None]]) -> list[str]:
    """What entries are called, by the texts of their key's columns. No two keys have the same name.

    >>> entry_names([["a", "b:c"]]), entry_names([["a", "b:c"], ["1", None]])
    (['a', 'b:c'], ['a:1', 'b%3Ac:%00'])
    """
    if len(columns) == 1:
        return ["%00" if text is None else text.replace("%", "%25") for text in columns[0]]
    keys = zip(*columns, strict=True)
    return [":".join("%00" if one is None else quote(one, safe="/ ") for one in key) for key in keys]


def _key_texts(column: Column, values: pa.ChunkedArray) -> list[str | None]:
    whole = values.combine_chunks()
    array = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    found: list[str | None] = (json_text(array) if column.nested else plain_text(array)).to_pylist()
    return found


def _read(text: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if text is None else json.loads(text)
    return found
