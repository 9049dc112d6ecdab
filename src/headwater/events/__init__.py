"""Event sourcing on the log: commands are checked against the state, what happened is stored, state follows from it.

import headwater.events as ev

store = ev.open("data")
done = store.handle(Seat, "12A", "reserve", user="ada", id="request-77")
"""

from headwater.errors import Rejected, UnexpectedEvent, WrongVersion
from headwater.events.aggregate import Aggregate, Confirmed, Expired, Tentative, apply, command, tentative
from headwater.events.process import Do, Process, TimedOut, Trigger, do, forget, react, remind
from headwater.events.process_runner import ProcessRunner
from headwater.events.remote import connect
from headwater.events.scenario import given
from headwater.events.store import Done, EventStore, Step, open
from headwater.events.upcasting import Upcast
from headwater.log.streams.condition import Append, Match, StreamWrite, Unless
from headwater.log.streams.event import NewEvent, Origin, StoredEvent
from headwater.log.streams.event_topic import CaughtUp, EventTopic, Stored

__all__ = [
    "Aggregate",
    "Append",
    "CaughtUp",
    "Confirmed",
    "Do",
    "Done",
    "EventStore",
    "EventTopic",
    "Expired",
    "Match",
    "NewEvent",
    "Origin",
    "Process",
    "ProcessRunner",
    "Rejected",
    "Step",
    "Stored",
    "StoredEvent",
    "StreamWrite",
    "Tentative",
    "TimedOut",
    "Trigger",
    "UnexpectedEvent",
    "Unless",
    "Upcast",
    "WrongVersion",
    "apply",
    "command",
    "connect",
    "do",
    "forget",
    "given",
    "open",
    "react",
    "remind",
    "tentative",
]
