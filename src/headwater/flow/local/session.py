"""What stands in for a Spark session where a job runs in this process."""

import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.flow.expressions.resolution.sql_text import parsed
from headwater.flow.expressions.resolution.unresolved import Unresolved
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.local.frames import LocalFrame, Part, fields_of
from headwater.flow.rows.arrow_types import arrow_schema

SHARDS = 2
"""More than one: an app must not depend on all keys lying in one shard."""


@dataclass(frozen=True)
class LocalContext:
    defaultParallelism: int = SHARDS
    master: str = "in-process"


class LocalConf:
    """Settings of Spark's, which mean nothing here."""

    def set(self, name: str, value: object) -> None:
        pass

    def get(self, name: str, default: str) -> str:
        return default


@dataclass(frozen=True)
class LocalSession:
    """Makes local frames. It answers to what flows ask of Spark's session."""

    version: str = "local"
    sparkContext: LocalContext = field(default_factory=LocalContext)
    conf: LocalConf = field(default_factory=LocalConf)
    turns: Any = field(default_factory=threading.RLock)
    """Outputs are collected by several threads, and frames are made by one at a time."""

    def __getattr__(self, name: str) -> Any:
        """What else Spark's session answers to has no counterpart here."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise Untranslatable(f"SparkSession.{name}")

    @classmethod
    def as_spark(cls) -> SparkSession:
        """The type under which flows know a session."""
        return cast("SparkSession", cls())

    def range(self, start: int, end: int, step: int = 1, parts: int = 1) -> LocalFrame:
        fields = fields_of(pa.schema([("id", pa.int64())]))
        numbers = list(range(start, end, step))
        bounds = [len(numbers) * place // parts for place in range(parts + 1)]
        each = [numbers[begin:until] for begin, until in pairwise(bounds)]
        return LocalFrame(
            self, fields, lambda: [Part({fields[0].internal: pa.array(one, pa.int64())}, len(one)) for one in each]
        )

    def createDataFrame(self, data: Any, schema: StructType | None = None) -> LocalFrame:
        if isinstance(data, pa.Table):
            table = data
        elif not data and schema is not None:
            table = arrow_schema(schema).empty_table()
        else:
            raise Untranslatable("rows that are given as Python objects")
        fields = fields_of(table.schema)
        columns = {one.internal: table.column(place).combine_chunks() for place, one in enumerate(fields)}
        return LocalFrame(self, fields, lambda: [Part(columns, table.num_rows)])

    def parsed(self, text: str) -> Unresolved:
        return parsed(text)

    def sql(self, text: str) -> LocalFrame:
        raise Untranslatable("a query in SQL")


def is_local(session: object) -> bool:
    return isinstance(session, LocalSession)


def cloned(session: SparkSession) -> SparkSession:
    """A session of its own: the number of shuffle partitions is a setting, and other jobs have others."""
    if is_local(session):
        return session
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
