"""What a group asks of its surroundings after each call: answers, saves, and a time to be called again."""

from typing import NamedTuple

from headwater import errors
from headwater.log.groups.consumer.heartbeat import HeartbeatAnswer
from headwater.log.groups.entry import Entry
from headwater.log.groups.member import Joined, Synced, Ticket

Outcome = Joined | Synced | HeartbeatAnswer | errors.HeadwaterError


class Answer(NamedTuple):
    ticket: Ticket
    outcome: Outcome


class Save(NamedTuple):
    """Write this down, then call `saved` with its number; saves must reach the disk in the order of their numbers."""

    number: int
    entries: tuple[Entry, ...]


class Effects(NamedTuple):
    answers: list[Answer]
    saves: list[Save]
    wake_ms: int | None
    """Call `tick` then; calling it too early does no harm."""
