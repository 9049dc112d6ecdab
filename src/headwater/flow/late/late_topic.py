"""What the late topic of a job says: which rows were late, why, and which of them were replayed since."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from headwater.flow.commit.topic_values import TopicValues
from headwater.flow.declare.topology.naming import late_topic
from headwater.flow.deploy.inventory import KeptJob
from headwater.flow.kafka.client import Client
from headwater.flow.late.late_text import exact
from headwater.flow.proof.rebuilt_late import counts_still


@dataclass(frozen=True)
class LateRow:
    """One row that was late for one operator."""

    app: str
    job: str
    operator: str
    topic: str
    partition: int
    offset: int
    batch: int
    time: str
    watermark: str
    window: dict[str, str] | None
    """None where it depends on other rows."""
    reason: str
    row: Any
    """The event, as the operator was given it; numbers that would lose digits are text."""
    admitted: int | None = None
    """The batch that took it back."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def late_rows_reported(client: Client, kept: KeptJob) -> list[LateRow]:
    """In the order in which they came; but for those that an operator took in when it was rebuilt."""
    values = TopicValues(late_topic(kept.app, kept.name)).read_on(client)
    said = (json.loads(value, parse_float=exact) for value in values)
    # Also of those that say that a row was replayed: for an operator that was rebuilt it may be late again.
    return read_late(kept.app, kept.name, (one for one in said if counts_still(one, kept.folder)))


def read_late(app: str, job: str, said: Iterable[dict[str, Any]]) -> list[LateRow]:
    late, admitted = [], {}
    for one in said:
        if one.get("admitted"):
            admitted[_place(one)] = one["batch"]
        else:
            late.append(one)
    return [
        LateRow(
            app, job, one["operator"], one["topic"], one["partition"], one["offset"], one["batch"], one["time"],
            one["watermark"], one["window"], one["reason"], one["row"], admitted.get(_place(one)),
        )
        for one in late
    ]  # fmt: skip


def _place(said: dict[str, Any]) -> tuple[str, str, int, int]:
    return said["operator"], said["stream"], said["partition"], said["offset"]
