"""The options of `format("headwater")`, checked. Pure but for the number of cores.

address             HOST:PORT of a Kafka port, or several of a cluster divided by commas
data                data directory of a node on this machine: says the address, and its files are read directly
topic               one topic, or several divided by commas
registry            URL of a schema registry, or "" for that of the node on `data`: values carry ids of their schemas;
                    without a schema the columns are those of the one that is registered for the topic
schema, format      columns of the value and how they decode (json unless said otherwise); format.NAME are its options
columns             hidden columns wanted beside those of the option schema, divided by commas
time, tombstones    column with the event time; null values: poison or keep
clock               what a job's stream declares about its times, as JSON (clock_rules.py)
streams             several topics with schemas of their own, as JSON (streams.py)
leading             topics of which all is read before anything of the others (leading.py), divided by commas
startingOffsets     earliest (default), latest, or JSON {"topic": {"0": 12}} where -2 is earliest and -1 latest
endingOffsets       of a batch read: latest (default), or JSON
startingTimestamp   instead of offsets: ISO 8601 or milliseconds; so endingTimestamp, which is not included
maxRowsPerBatch, maxBytesPerBatch    how much one micro-batch may take
onLoss              fail (default) or account: what to do where rows were removed before they were read
poisoned            fail (default), drop, or stage: what to do with values that do not decode
stage               folder for counts and poisoned rows of every range read
tasks               how many Spark tasks a large batch should give at least; the number of cores unless said
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.errors import InvalidSetting
from headwater.flow.formats.schema import Field, Schema, nearest, parse_ddl
from headwater.flow.kafka.connection import parse_addresses
from headwater.flow.kafka.messages import EARLIEST, LATEST
from headwater.flow.source.batch_plan.batch_control import CONTROL
from headwater.flow.source.columns import HIDDEN, RAW
from headwater.flow.source.streams import Stream, checked_tombstones, frame_of, parse_clock, parse_streams, typed_stream
from headwater.record import TopicPartition

NAMES = (
    "address", "data", "topic", "registry", "schema", "columns", "format", "time", "tombstones", "clock", "streams",
    "leading", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "maxRowsPerBatch",
    "maxBytesPerBatch", "onLoss", "poisoned", "stage", "tasks",
)  # fmt: skip
_KNOWN = {name.lower(): name for name in NAMES}
FORMAT_PREFIX = "format."


@dataclass(frozen=True)
class Edge:
    """Where reading begins or ends: a time (or EARLIEST or LATEST), and offsets where they are given one by one."""

    time_ms: int
    offsets: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    streams: tuple[Stream, ...]
    nested: bool
    address: str | None = None
    data: Path | None = None
    starting: Edge = Edge(EARLIEST)
    ending: Edge = Edge(LATEST)
    rows_max: int | None = None
    bytes_max: int | None = None
    account_losses: bool = False
    poisoned: str = "fail"
    stage: Path | None = None
    tasks: int = 1
    leading: frozenset[str] = frozenset()

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream.topic for stream in self.streams))

    @property
    def frame(self) -> Schema:
        return frame_of(self.streams, nested=self.nested)


def parse_options(given: Mapping[str, str], schema: Schema | None = None) -> SourceOptions:
    """`schema` is what the caller of the source gave as such, and goes before the option of that name."""
    said = {_known(name): value for name, value in given.items()}
    formats = {
        name.removeprefix(FORMAT_PREFIX): value for name, value in said.items() if name.startswith(FORMAT_PREFIX)
    }
    if "streams" in said:
        if "topic" in said:
            raise InvalidSetting("topic", said["topic"], "the option streams names the topics")
        streams = parse_streams(said["streams"])
    else:
        if schema is None and "schema" in said:
            schema = _with_hidden(parse_ddl(said["schema"]), said.get("columns", ""))
        streams = _plain_streams(said, schema, formats)
    address, data = said.get("address"), said.get("data")
    if address is None and data is None:
        raise InvalidSetting("address", None, "say where the log is: address=HOST:PORT, or data=DIRECTORY")
    if address is not None:
        parse_addresses(address)
    return SourceOptions(
        streams=streams,
        nested="streams" in said,
        address=address,
        data=None if data is None else Path(data).absolute(),
        starting=_edge(said, "starting", EARLIEST),
        ending=_edge(said, "ending", LATEST),
        rows_max=_positive(said, "maxRowsPerBatch"),
        bytes_max=_positive(said, "maxBytesPerBatch"),
        account_losses=_choice(said, "onLoss", ("fail", "account")) == "account",
        poisoned=_poisoned(said),
        stage=Path(said["stage"]).absolute() if "stage" in said else None,
        tasks=_positive(said, "tasks") or os.cpu_count() or 1,
        leading=frozenset(name for name in said.get("leading", "").split(",") if name),
    )


def _known(name: str) -> str:
    lowered = name.lower()
    if lowered.startswith(FORMAT_PREFIX):
        return lowered
    if lowered not in _KNOWN:
        raise InvalidSetting(name, "…", f"the source has no such option. {nearest(name, NAMES)}")
    return _KNOWN[lowered]


def _plain_streams(said: Mapping[str, str], schema: Schema | None, formats: Mapping[str, str]) -> tuple[Stream, ...]:
    topics = [name.strip() for name in said.get("topic", "").split(",") if name.strip()]
    if not topics:
        raise InvalidSetting("topic", said.get("topic"), "say which topic to read")
    if schema is None or (schema.names == tuple(RAW) and said.get("format", "raw") == "raw"):
        return tuple(Stream(topic, topic) for topic in topics)
    return tuple(
        typed_stream(
            Stream(
                topic, topic, said.get("format", "json"), options=formats, time=said.get("time"),
                tombstones=checked_tombstones(said.get("tombstones", "poison")), clock=parse_clock(said.get("clock")),
            ), schema,
        )
        for topic in topics
    )  # fmt: skip


def _edge(said: Mapping[str, str], which: str, default: int) -> Edge:
    offsets, time = said.get(f"{which}Offsets"), said.get(f"{which}Timestamp")
    if offsets is not None and time is not None:
        raise InvalidSetting(f"{which}Timestamp", time, f"say either it or {which}Offsets")
    if time is not None:
        return Edge(parse_time(f"{which}Timestamp", time))
    match offsets:
        case None:
            return Edge(default)
        case "earliest":
            return Edge(EARLIEST)
        case "latest":
            return Edge(LATEST)
        case _:
            return Edge(default, _parse_offsets(f"{which}Offsets", offsets))


def _parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    try:
        return read_offsets(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        why = 'it must be earliest, latest, or JSON such as {"orders": {"0": 12}}'
        raise InvalidSetting(name, text, why) from None


def read_offsets(said: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Offsets as Spark keeps them: topic -> partition -> offset, where partitions are texts."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in said.items()
        if topic != CONTROL
        for partition, offset in partitions.items()
    }


def written_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """
    >>> written_offsets({TopicPartition("orders", 0): 12})
    {'orders': {'0': 12}}
    """
    said: dict[str, dict[str, int]] = {}
    for place in sorted(offsets):
        said.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return said


def parse_time(name: str, text: str) -> int:
    """
    >>> parse_time("startingTimestamp", "1970-01-01T00:00:01Z")
    1000
    """
    if text.strip().isdecimal():
        return int(text)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidSetting(name, text, "it must be milliseconds, or a time such as 2026-01-31T12:00:00Z") from None
    return max(0, round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def _positive(said: Mapping[str, str], name: str) -> int | None:
    if name not in said:
        return None
    if not said[name].strip().isdecimal() or int(said[name]) < 1:
        raise InvalidSetting(name, said[name], "it must be a whole number above zero")
    return int(said[name])


def _choice(said: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    chosen = said.get(name, allowed[0])
    if chosen not in allowed:
        raise InvalidSetting(name, chosen, f"choose one of {', '.join(allowed)}")
    return chosen


def _poisoned(said: Mapping[str, str]) -> str:
    chosen = _choice(said, "poisoned", ("fail", "drop", "stage"))
    if chosen == "stage" and "stage" not in said:
        raise InvalidSetting("poisoned", chosen, "say in the option stage where poisoned rows go")
    return chosen


def _with_hidden(schema: Schema, listed: str) -> Schema:
    names = [name.strip() for name in listed.split(",") if name.strip()]
    for name in names:
        if name not in HIDDEN:
            raise InvalidSetting("columns", name, f"hidden columns are {', '.join(HIDDEN)}")
    return Schema(schema.fields + tuple(Field(name, HIDDEN[name].type) for name in names))
