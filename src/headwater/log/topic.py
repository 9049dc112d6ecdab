"""Topics: their names, and the files that say which exist.

`topics/<name>.json` is the truth about a topic: id, number of partitions, configuration that differs from the default, and
whether it is being deleted. It is written before the partitions' folders are made and goes after they are gone, so a
crash at any point leaves a topic that is whole, or one whose deletion is finished at the next start.
"""

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.errors import InvalidTopicName
from headwater.log.storage import Storage, read_whole, replace_durably
from headwater.log.topic_settings import TopicSettings

NAME_LENGTH_MAX = 249
DIRECTORY = "topics"
INTERNAL_PREFIX = "__"

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Topic:
    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str]
    settings: TopicSettings

    @property
    def internal(self) -> bool:
        return self.name.startswith(INTERNAL_PREFIX)

    def with_partitions(self, partitions: int) -> "Topic":
        return replace(self, partitions=partitions)


def check_name(name: str) -> None:
    """Kafka's rule; a name that passes is also safe as a part of a path.

    >>> check_name("orders.v1")
    >>> check_name("../etc")
    Traceback (most recent call last):
    ...
    headwater.errors.InvalidTopicName: '../etc' cannot name a topic: it has a character that is not allowed. Use 1 to 249 letters, digits, dots, underscores and hyphens, other than . and .. alone.
    """  # noqa: E501 (the message is one sentence)
    if not name:
        raise InvalidTopicName(name, "it is empty")
    if name in (".", ".."):
        raise InvalidTopicName(name, "it means a folder")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicName(name, f"it is longer than {NAME_LENGTH_MAX} characters")
    if not _NAME.fullmatch(name):
        raise InvalidTopicName(name, "it has a character that is not allowed")


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def save_topic(storage: Storage, topic: Topic, *, deleting: bool = False) -> None:
    content = {
        "id": str(topic.id), "partitions": topic.partitions, "configs": dict(topic.configs), "deleting": deleting,
    }  # fmt: skip
    replace_durably(storage, f"{DIRECTORY}/{topic.name}.json", json.dumps(content, indent=1).encode())


def load_topics(storage: Storage, defaults: Mapping[str, str]) -> list[tuple[Topic, bool]]:
    """Every topic, and whether its deletion was begun."""
    topics = []
    for file in storage.list(DIRECTORY):
        name, _, kind = file.rpartition(".")
        if kind != "json":
            continue
        content = json.loads(read_whole(storage, f"{DIRECTORY}/{file}"))
        configs = content["configs"]
        settings = TopicSettings.from_configs({**defaults, **configs})
        topic = Topic(name, uuid.UUID(content["id"]), content["partitions"], configs, settings)
        topics.append((topic, content["deleting"]))
    return topics


def remove_topic_files(storage: Storage, topic: Topic) -> None:
    """Finish a deletion that has been written down: folders first, the topic's own file last."""
    for number in range(topic.partitions):
        directory = partition_directory(topic.name, number)
        for name in storage.list(directory):
            storage.delete(f"{directory}/{name}")
        storage.remove_directory(directory)
    storage.sync_directory("")
    storage.delete(f"{DIRECTORY}/{topic.name}.json")
    storage.sync_directory(DIRECTORY)
