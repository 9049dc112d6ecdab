"""A share consumer in the words of the suite; each client library that has one implements it here."""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from tests.waiting import Deadline

POLL_S = 0.3
PATIENCE_S = 60


class Shared(NamedTuple):
    """A message that a consumer was given. `deliveries` counts this one; -1 where the library does not say."""

    topic: str
    partition: int
    offset: int
    value: bytes
    deliveries: int


class Sharing(Protocol):
    def poll(self, seconds: float = POLL_S) -> list[Shared]: ...

    def acknowledge(self, message: Shared, kind: str) -> None:
        """accept, release, reject, renew: sent with the next poll or commit."""

    def commit(self) -> Mapping[int, int]:
        """By partition: the error code of what was acknowledged, 0 if it is durable."""

    def close(self) -> None: ...


def polled(consumer: Sharing, count: int) -> list[Shared]:
    """So many messages, as they come."""
    found: list[Shared] = []
    deadline = Deadline(PATIENCE_S)
    while len(found) < count:
        found += consumer.poll()
        assert not deadline.passed, f"of {count} messages, {len(found)} came"
    return found


class JavaSharing:
    def __init__(self, ask: Callable[..., Any], number: int) -> None:
        self._ask = partial(ask, consumer=number)

    def poll(self, seconds: float = POLL_S) -> list[Shared]:
        rows = self._ask("pollShare", ms=int(seconds * 1000))
        return [
            Shared(topic, partition, offset, base64.b64decode(value), deliveries)
            for topic, partition, offset, value, deliveries in rows
        ]

    def acknowledge(self, message: Shared, kind: str) -> None:
        self._ask(
            "acknowledgeShare", topic=message.topic, partition=message.partition, offset=message.offset, type=kind
        )

    def commit(self) -> Mapping[int, int]:
        return {int(partition): code for partition, code in self._ask("commitShare").items()}

    def close(self) -> None:
        self._ask("closeShare")


def shared(message: Message) -> Shared:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    value, deliveries = message.value(), message.delivery_count()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    assert deliveries is not None
    return Shared(topic, partition, offset, value or b"", deliveries)


class ConfluentSharing:
    def __init__(self, bootstrap: str, group: str, topic: str, *, explicit: bool, records_max: int) -> None:
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, "max.poll.records": records_max,
                "share.acknowledgement.mode": "explicit" if explicit else "implicit",
            }
        )  # fmt: skip
        self._consumer.subscribe([topic])

    def poll(self, seconds: float = POLL_S) -> list[Shared]:
        return [shared(one) for one in self._consumer.poll(seconds) if one.error() is None]

    def acknowledge(self, message: Shared, kind: str) -> None:
        place = message.topic, message.partition, message.offset
        self._consumer.acknowledge_offset(*place, getattr(AcknowledgeType, kind.upper()))

    def commit(self) -> Mapping[int, int]:
        outcome = self._consumer.commit_sync(30)
        return {where.partition: 0 if error is None else error.args[0].code() for where, error in outcome.items()}

    def close(self) -> None:
        self._consumer.close()


def texts(messages: Sequence[Shared]) -> list[str]:
    return sorted(message.value.decode() for message in messages)
