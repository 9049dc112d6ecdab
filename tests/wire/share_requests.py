"""Requests of share consumers."""

from datetime import timedelta
from typing import Any

from tests.wire.group_requests import Caller
from tests.wire.running import RunningServer

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP = 0


class Member:
    """Of the group "g", with a session over partition 0 of orders."""

    def __init__(self, caller: Caller, server: RunningServer, name: str = "m", *, group: str = "g") -> None:
        self._caller, self.topic_id = caller, server.log.topic("orders").id
        self._who = {"group_id": group, "member_id": name}
        self.epoch = 0

    def fetch(self, *, epoch: int | None = None, batches: Any = (), version: int | None = None, **fields: Any) -> Any:
        """The answer, with `one` for its first partition if it has any."""
        self.epoch, epoch = (self.epoch + 1, self.epoch) if epoch is None else (self.epoch, epoch)
        asked = {
            "max_wait": timedelta(0), "min_bytes": 1, "max_bytes": 1024**2, "max_records": 100, "batch_size": 100,
            "topics": self._topics(batches), "forgotten_topics_data": [], **fields,
        }  # fmt: skip
        return self._caller.ask("share_fetch", version, share_session_epoch=epoch, **self._who, **asked)

    def acknowledge(self, *batches: Any, epoch: int | None = None, version: int | None = None, **fields: Any) -> Any:
        self.epoch, epoch = (self.epoch + 1, self.epoch) if epoch is None else (self.epoch, epoch)
        topics = self._topics(batches)
        return self._caller.ask(
            "share_acknowledge", version, share_session_epoch=epoch, topics=topics, **self._who, **fields
        )

    def _topics(self, batches: Any) -> list[Any]:
        rows = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types} for first, last, *types in batches
        ]
        return [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": rows}]}]


def one(answer: Any) -> Any:
    """The only partition of an answer."""
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (row.first_offset, row.last_offset, row.delivery_count)
        for topic in answer.responses for partition in topic.partitions for row in partition.acquired_records
    ]  # fmt: skip
