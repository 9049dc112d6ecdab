"""Topics: their names, and the files that say which exist.

`topics/<name>.json` is the truth about a topic: id, number of partitions, configuration that differs from the default.
It is written before the partitions' folders are made. To delete the topic it is renamed to `<name>.gone`, which goes
when all else is gone: a crash at any point leaves a topic that is whole, or one whose deletion the next start finishes.
"""

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.errors import DamagedFile, InvalidSetting, InvalidTopicName
from headwater.log.storage import Storage, read_whole, replace_durably
from headwater.log.topic_settings import TopicSettings

NAME_LENGTH_MAX = 249
DIRECTORY = "topics"
KINDS = ("json", "gone")
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "_schemas"})
"""Topics a node keeps for itself. Other names may begin with underscores too."""

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
        return self.name in INTERNAL

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


def save_topic(storage: Storage, topic: Topic) -> None:
    content = {"id": str(topic.id), "partitions": topic.partitions, "configs": dict(topic.configs)}
    # Under a short name first: the longest topic name leaves no room for more than ".json" behind it.
    data = json.dumps(content, indent=1).encode()
    replace_durably(storage, f"{DIRECTORY}/{topic.name}.json", data, fresh=f"{DIRECTORY}/.new")


def mark_deletion(storage: Storage, topic: Topic) -> None:
    """From here on the topic goes, whatever crashes. A change of name needs no space on a full disk."""
    storage.rename(f"{DIRECTORY}/{topic.name}.json", f"{DIRECTORY}/{topic.name}.gone")
    storage.sync_directory(DIRECTORY)


def deletion_marked(storage: Storage, topic: Topic) -> bool:
    return storage.exists(f"{DIRECTORY}/{topic.name}.gone")


def load_topics(storage: Storage, defaults: Mapping[str, str]) -> list[tuple[Topic, bool]]:
    """Every topic, and whether its deletion was begun."""
    files = [file.rpartition(".") for file in storage.list(DIRECTORY)]
    return [(_load_topic(storage, name, kind, defaults), kind == "gone") for name, _, kind in files if kind in KINDS]


def _load_topic(storage: Storage, name: str, kind: str, defaults: Mapping[str, str]) -> Topic:
    path = f"{DIRECTORY}/{name}.{kind}"
    try:
        content = json.loads(read_whole(storage, path))
        configs = content["configs"]
        settings = TopicSettings.from_configs({**defaults, **configs})
        return Topic(name, uuid.UUID(content["id"]), content["partitions"], configs, settings)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidSetting) as error:
        raise DamagedFile(path, str(error)) from None


def remove_partitions(storage: Storage, topic: Topic) -> None:
    """Remove the folders of a topic whose deletion has been marked."""
    for number in range(topic.partitions):
        directory = partition_directory(topic.name, number)
        for name in storage.list(directory):
            storage.delete(f"{directory}/{name}")
        storage.remove_directory(directory)
    storage.sync_directory("")


def remove_mark(storage: Storage, topic: Topic) -> None:
    """The last step of a deletion: all else of the topic must be gone."""
    storage.delete(f"{DIRECTORY}/{topic.name}.gone")
    storage.sync_directory(DIRECTORY)
