"""The answer of Metadata for all topics, made and written once for as long as no topic changes.

Thousands of topics take milliseconds to describe and to write. Hundreds of clients that ask for all of them again and
again, as clients do that reconnect, would keep the node from all other work with the same bytes.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.errors import TopicOffline
from headwater.log.topic import INTERNAL
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.metadata import NO_ID, MetadataAnswer, TopicAnswer, write_response

if TYPE_CHECKING:
    from headwater.log.topic import Topic
    from headwater.wire.context import Context

Key = tuple[int, str, int, int]
"""Version, host, and which operations are asked for."""
KEPT_MAX = 32


class TopicList:
    """The topic list of one server, on its event loop."""

    def __init__(self) -> None:
        self._making = asyncio.Lock()
        self._topics: list[Topic] = []
        self._offline: Mapping[str, str] = {}
        self._answers: dict[Key, MetadataAnswer] = {}

    async def answer(self, context: "Context", *, operations: int, cluster_operations: int) -> MetadataAnswer:
        key = (context.api_version, context.node.host, operations, cluster_operations)
        async with self._making:  # concurrent requests wait for the same result
            topics, offline = context.log.topics(), context.log.offline_topics()
            if topics != self._topics or offline != self._offline or len(self._answers) >= KEPT_MAX:
                self._topics, self._offline, self._answers = topics, offline, {}
            if key not in self._answers:
                self._answers[key] = await context.run(_made, context, topics, offline, operations, cluster_operations)
            return self._answers[key]


def _made(
    context: "Context", topics: list["Topic"], offline: Mapping[str, str], operations: int, cluster_operations: int
) -> MetadataAnswer:
    node = context.node
    described = [described_topic(topic, operations) for topic in topics]
    described += [
        TopicAnswer(name, NO_ID, error_code(TopicOffline(name, why)).value, internal=name in INTERNAL)
        for name, why in offline.items()
    ]
    cluster = context.log.cluster_id
    answer = MetadataAnswer(node.id, node.host, node.port, cluster, described, cluster_operations, written={})
    write_response(answer, context.api_version)
    return answer


def described_topic(topic: "Topic", operations: int) -> TopicAnswer:
    return TopicAnswer(
        topic.name, topic.id, internal=topic.internal, partitions=topic.partitions, operations=operations
    )
