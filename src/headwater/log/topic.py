"""Topics: their names, and the files that say which exist.

`topics/<name>.json` is the truth about a topic: id, number of partitions, configuration that differs from the default.
It is a small file with a copy, `<name>.copy`, beside it (small_file.py), written before the partitions' folders are
made. To delete the topic, its copy is deleted and the file is renamed to `<name>.gone`, which is deleted last: a
crash at any point leaves a topic that is whole, or one whose deletion the next start finishes.

A topic whose file and copy are damaged or missing is offline, and the others are not concerned: without its number of
partitions and its retention nothing of it can be touched. So is one of which a whole partition is missing: `made` is
written when the folders have been there for a while; an empty one in its place would give out offsets again. An offline
topic can only be deleted: then `<name>.gone` is written first, with what is still known of it.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.errors import DamagedFile, InvalidSetting, InvalidTopicName
from headwater.log.checkpoint import read_checkpoint
from headwater.log.storage import (
    Storage,
    read_small_file,
    read_whole,
    recover_small_file,
    replace_durably,
    write_small_file,
)
from headwater.log.topic_settings import TopicSettings
from headwater.small_file import SmallFile, copy_path, seal, unseal

NAME_LENGTH_MAX = 249
DIRECTORY = "topics"
KINDS = ("json", "gone", "copy")
ACCESS_TOPIC, AUDIT_TOPIC = "__headwater_access", "__headwater_audit"
INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__queue_state", "_schemas", ACCESS_TOPIC, AUDIT_TOPIC}
)
"""Topics a node keeps for itself. Other names may begin with underscores too."""

SECRET = frozenset({ACCESS_TOPIC})
"""Those among them that no client may read: hashed passwords are in it."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Topic:
    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str]
    settings: TopicSettings
    made: int = field(default=0, compare=False)
    """How many of its partitions are known to have had a checkpoint."""

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
    write_small_file(storage, _path(topic.name), _content(topic))


def _content(topic: Topic) -> dict[str, object]:
    return {"id": str(topic.id), "partitions": topic.partitions, "made": topic.made, "configs": dict(topic.configs)}


def raise_if_partition_lost(storage: Storage, topic: Topic, number: int) -> None:
    """DamagedFile if nothing is left of a partition that there was that could say where it ends."""
    if number >= topic.made:
        return
    folder = partition_directory(topic.name, number)
    left = storage.list(folder)
    if all(name.endswith("index") for name in left):
        raise DamagedFile(folder, "its files are missing" if storage.is_directory(folder) else "it is missing")


def mark_deletion(storage: Storage, topic: Topic) -> None:
    """From here on the topic goes, whatever crashes. A change of name needs no space on a full disk."""
    if storage.exists(copy_path(_path(topic.name))):
        storage.delete(copy_path(_path(topic.name)))
        storage.sync_directory(DIRECTORY)  # or a power cut could bring it back, and it the topic
    storage.rename(_path(topic.name), _mark(topic.name))
    storage.sync_directory(DIRECTORY)


def remains_of(storage: Storage, name: str, defaults: Mapping[str, str]) -> Topic:
    """What is left of an offline topic, for its deletion: as its file says, or as the folders of its partitions do.

    If neither says which id it had, the id is zero.
    """
    deleting = storage.exists(_mark(name))
    if (topic := _load_topic(storage, name, deleting, defaults, repair=False).topic) is not None:
        return topic
    folders = _partition_folders(storage).get(name, [])
    checkpoints = [read_checkpoint(storage, folder) for folder in folders]
    ids = [uuid.UUID(one.topic_id) for one in checkpoints if one is not None and one.topic_id]
    partitions = 1 + max((int(folder.rpartition("-")[2]) for folder in folders), default=0)
    return Topic(name, ids[0] if ids else uuid.UUID(int=0), partitions, {}, TopicSettings.from_configs(defaults))


def mark_deletion_of_remains(storage: Storage, topic: Topic) -> None:
    """As mark_deletion, of an offline topic: there may be no sound file to rename."""
    replace_durably(storage, _mark(topic.name), seal(_content(topic), version=1))


def deletion_marked(storage: Storage, topic: Topic) -> bool:
    return storage.exists(_mark(topic.name))


@dataclass(frozen=True)
class FoundTopic:
    """The files of one topic, as found. `topic` is None if they are damaged; then `damage` says why."""

    name: str
    topic: Topic | None
    deleting: bool = False
    damage: str = ""
    problems: tuple[str, ...] = ()


def load_topics(storage: Storage, defaults: Mapping[str, str], *, repair: bool = False) -> list[FoundTopic]:
    """Every topic there is or was. With `repair`, a file that its copy stood in for is written again."""
    files = [file.rpartition(".") for file in storage.list(DIRECTORY)]
    kinds = {(name, kind) for name, _, kind in files if kind in KINDS}
    names = sorted({name for name, _ in kinds})
    found = [_load_topic(storage, name, (name, "gone") in kinds, defaults, repair) for name in names]
    return found + _without_file(storage, found)


def _load_topic(storage: Storage, name: str, deleting: bool, defaults: Mapping[str, str], repair: bool) -> FoundTopic:
    path = _mark(name) if deleting else _path(name)
    read = recover_small_file if repair else read_small_file
    try:
        file = SmallFile(path, *unseal(read_whole(storage, path))) if deleting else read(storage, path)
        content = file.content
        configs = content["configs"]
        settings = TopicSettings.from_configs({**defaults, **configs})
        made = content.get("made", 0)
        topic = Topic(name, uuid.UUID(content["id"]), content["partitions"], configs, settings, made)
    except DamagedFile as error:
        return FoundTopic(name, None, deleting, error.summary)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidSetting) as error:
        return FoundTopic(name, None, deleting, f"{path} cannot be read: {error}")
    return FoundTopic(name, topic, deleting, problems=file.problems)


def _without_file(storage: Storage, found: list[FoundTopic]) -> list[FoundTopic]:
    """Topics whose files are missing: partition folders that no topic file names, though a checkpoint does."""
    known = {one.name for one in found}
    missing = []
    for name, partitions in _partition_folders(storage).items():
        if name in known:
            continue
        checkpoints = [read_checkpoint(storage, folder) for folder in partitions]
        if any(checkpoint is not None and checkpoint.topic_id for checkpoint in checkpoints):
            damage = f"{_path(name)} and its copy are missing, and {', '.join(partitions[:3])} is there"
            missing.append(FoundTopic(name, None, damage=damage))
    return missing


def _partition_folders(storage: Storage) -> dict[str, list[str]]:
    """Folders that have the name of a partition, by topic."""
    folders: dict[str, list[str]] = {}
    for folder in storage.list(""):
        name, _, number = folder.rpartition("-")
        if number.isdecimal() and name and storage.is_directory(folder):
            folders.setdefault(name, []).append(folder)
    return folders


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}.json"


def _mark(name: str) -> str:
    return f"{DIRECTORY}/{name}.gone"


def remove_partitions(storage: Storage, topic: Topic) -> None:
    """Remove the folders of a topic whose deletion has been marked."""
    for number in range(topic.partitions):
        directory = partition_directory(topic.name, number)
        for name in storage.list(directory):
            storage.delete(f"{directory}/{name}")
        storage.remove_directory(directory)
    storage.sync_directory("")


def remove_mark(storage: Storage, topic: Topic) -> None:
    """The last step of a deletion: all other files of the topic must be deleted already."""
    damaged = [path for path in (copy_path(_path(topic.name)), _path(topic.name)) if storage.exists(path)]
    if damaged:  # those of a topic that was offline
        for path in damaged:
            storage.delete(path)
        storage.sync_directory(DIRECTORY)
    storage.delete(_mark(topic.name))
    storage.sync_directory(DIRECTORY)
