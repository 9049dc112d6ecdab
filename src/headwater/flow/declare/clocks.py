"""Whose clock says when something happened, and what of that is believed."""

import difflib
from typing import NamedTuple

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.duration import duration_us
from headwater.flow.formats.schema import Field, Schema
from headwater.flow.source.times.clock_rules import ClockRules, DeviceTime

TIMESTAMP = pa.timestamp("us", "UTC")


def device_time(
    *, occurred: str, sent: str, received: str | None = None, most: str = "7 days", into: str = "at"
) -> DeviceTime:
    """The event time of rows from devices whose clocks are wrong: occurred + (received - sent).

    `occurred` and `sent` are columns with times by the device's clock, `received` one by a clock that is right
    (default: the timestamp of the record). Rows get the estimate as a column `into`. It is as exact as the way from the
    device is quick. A clock that is wrong by more than `most` is not believed, and such a row is poisoned.

    >>> device_time(occurred="occurred_at", sent="sent_at").into
    'at'
    """
    return DeviceTime(occurred, sent, received, duration_us(most), into)


class Clock(NamedTuple):
    """Of a stream: its columns, with one that is worked out; which of them is the event time; what else was said."""

    schema: Schema
    time: str | None
    rules: ClockRules


def clock_of(
    topic: str, schema: Schema | None, time: str | DeviceTime | None,
    *, producer: str | None, ahead: str | None, behind: str | None,
) -> Clock:  # fmt: skip
    """Checked against the schema, as soon as that is known."""
    device, column = (time, time.into) if isinstance(time, DeviceTime) else (None, time)
    if device is not None and schema is not None:
        schema = _with_estimate(topic, schema, device)
    if schema is not None:
        check_time(topic, schema, column)
    if schema is not None and producer is not None:
        check_column(schema, producer, f"the producer of stream {topic}")
    ahead_us, behind_us = (None if one is None else duration_us(one) for one in (ahead, behind))
    return Clock(schema or Schema(()), column, ClockRules(producer, ahead_us, behind_us, device))


def _with_estimate(topic: str, schema: Schema, device: DeviceTime) -> Schema:
    for column in (device.occurred, device.sent, device.received):
        check_time(topic, schema, column)
    if device.into in schema.names:
        raise InvalidDeclaration(
            f"the estimated time of stream {topic} ({calling_place()}) is to be column {device.into}, which its "
            "schema has already",
            "Choose another name: device_time(..., into=...).",
        )
    return Schema((*schema.fields, Field(device.into, TIMESTAMP)))


def check_time(topic: str, schema: Schema, time: str | None) -> None:
    if time is None:
        return
    check_column(schema, time, f"the time of stream {topic}")
    if schema.field(time).type != TIMESTAMP:
        raise InvalidDeclaration(
            f"the time of stream {topic} ({calling_place()}) is column {time}, which is no timestamp",
            f"Declare it as `{time} timestamp`.",
        )


def check_column(schema: Schema, column: str, what: str) -> None:
    if column not in schema.names:
        near = difflib.get_close_matches(column, schema.names, 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(schema.names)}."
        raise InvalidDeclaration(f"{what} ({calling_place()}) is {column}, which is not in its schema", hint)


def check_new(topic: str, schema: Schema, column: str) -> None:
    """Of a column that is made beside those of a schema; an empty name is none."""
    if column.startswith("_") or column.lower() in map(str.lower, schema.names):
        raise InvalidDeclaration(
            f"column {column} of table {topic} ({calling_place()}) is there already, or begins with _",
            "Give it another name.",
        )
