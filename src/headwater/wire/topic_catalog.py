"""The topics of a log as groups of the consumer protocol see them: ids, sizes, and names by pattern."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import re2

from headwater.errors import InvalidPattern, UnavailableError, UnknownTopic
from headwater.log.groups.consumer.assignors import TopicInfo

if TYPE_CHECKING:
    from headwater.log.log import Log

PATTERN_LENGTH_MAX = 4096
PATTERN_BYTES_MAX = 8 * 1024**2
"""What a compiled pattern may take. Matching is linear in the length of the name, whatever the pattern is."""


def _every_topic(_name: str) -> bool:
    return True


class TopicCatalog:
    def __init__(self, log: "Log", sees: Callable[[str], bool] = _every_topic) -> None:
        self._log, self._sees = log, sees

    def find(self, name: str) -> TopicInfo | None:
        try:
            topic = self._log.topic(name)
        except (UnknownTopic, UnavailableError):
            return None
        return TopicInfo(topic.id, topic.partitions)

    def names(self) -> frozenset[str]:
        return frozenset(topic.name for topic in self._log.topics())

    def matching(self, pattern: str) -> frozenset[str]:
        """The topics whose whole name matches, as far as they may be seen; InvalidPattern."""
        compiled = _compiled(pattern)
        return frozenset(name for name in self.names() if compiled.fullmatch(name) and self._sees(name))


def _compiled(pattern: str) -> "re2._Regexp[str]":
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidPattern(f"a pattern of {len(pattern)} characters is longer than {PATTERN_LENGTH_MAX}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f'"{pattern}" is no regular expression of RE2: {said}') from None
