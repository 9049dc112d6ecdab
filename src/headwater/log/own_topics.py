"""Topics that headwater keeps for itself: nothing that is written to them may be refused, and nothing lost.

What an engine has to say does not depend on how ordinary topics are set up: a late row may be from the future, a row
that cannot be read may be large. So each such topic is given all settings that could refuse a write, whatever the
node's defaults are; one that was made before, or was changed since, is altered. The same goes for settings by which it
would lose what it holds earlier than its part can do without it.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.errors import InvalidSetting, TopicExists, UnknownTopic
from headwater.log.topic_settings import FOREVER

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.topic import Topic

logger = logging.getLogger("headwater.log")

BYTES_MAX = 128 * 1024**2
"""More than a request may have; each writer keeps its records well below."""

TAKES_ALL = {
    "max.message.bytes": str(BYTES_MAX),
    "max.decompressed.message.bytes": str(BYTES_MAX),
    "message.timestamp.before.max.ms": str(FOREVER),
    "message.timestamp.after.max.ms": str(FOREVER),
    "headwater.full.policy": "drop-oldest",
    "headwater.append.policy": "any",
}
"""Every setting by which a topic may refuse a record, but for `cleanup.policy`, which depends on who has keys."""

NODE_ONLY = frozenset({"max.decompressed.message.bytes", "headwater.full.policy", "headwater.append.policy"})
"""Of these, the settings that Apache Kafka does not have."""

POLICY, LIMITS = "cleanup.policy", ("retention.ms", "retention.bytes")
UNBOUNDED = "-1"
KEEPS_ALL = {"retention.bytes": UNBOUNDED}
"""Settings with which an internal topic loses nothing, unless its part says otherwise."""


def ensure_own_topic(
    log: "Log", name: str, configs: Mapping[str, str], *, partitions: int = 1, kept: bool = True
) -> "Topic":
    """The topic, created at its first use, or altered if its settings differ.

    `kept`: how long records stay is headwater's matter. Otherwise it is only so when the topic is made (a captured
    table, of which its users may want to keep less).
    """
    wanted = {**KEEPS_ALL, **configs} if kept else configs
    try:
        topic = log.topic(name)
    except UnknownTopic:
        try:
            return log.create_topic(name, partitions=partitions, configs={**TAKES_ALL, **wanted})
        except TopicExists:
            topic = log.topic(name)
    changed = {setting: value for setting, value in TAKES_ALL.items() if topic.configs.get(setting) != value}
    losing = _losing(topic, wanted) if kept else {}
    return _altered(log, topic, changed, losing) if changed or losing else topic


def _losing(topic: "Topic", wanted: Mapping[str, str]) -> dict[str, str]:
    """Settings by which the topic would lose what it should keep, and what they should be. Keeping more is no harm."""
    settings = topic.settings
    found = {}
    if POLICY in wanted and settings.cleanup_policy != frozenset(wanted[POLICY].split(",")):
        found[POLICY] = wanted[POLICY]
    for name, now in zip(LIMITS, (settings.retention_ms, settings.retention_bytes), strict=True):
        if name in wanted and now != -1 and (wanted[name] == UNBOUNDED or now < int(wanted[name])):
            found[name] = wanted[name]
    return found


def _altered(log: "Log", topic: "Topic", changed: Mapping[str, str], losing: Mapping[str, str]) -> "Topic":
    if losing:
        said = ", ".join(f"{setting}={value}" for setting, value in losing.items())
        logger.warning(
            'topic "%s", which headwater keeps for itself, was set up to lose records: now %s', topic.name, said
        )
    try:
        return log.alter_topic(topic.name, {**changed, **losing})
    except InvalidSetting:
        # Segments in the archive keep a topic from being compacted. It stays as it is, and keeps all of them.
        ever = dict.fromkeys(LIMITS, UNBOUNDED)
        return log.alter_topic(topic.name, {**changed, **ever})
