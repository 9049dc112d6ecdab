"""A durable, partitioned, replayable log."""

from headwater.log.log import Log
from headwater.log.topic import Topic

__all__ = ["Log", "Topic"]
