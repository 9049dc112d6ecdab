"""State that all connections of one server share, for Produce and Fetch."""

from concurrent.futures import Executor
from dataclasses import dataclass, field

from headwater.wire.arrivals import Arrivals
from headwater.wire.auto_creation import AutoCreation
from headwater.wire.durability import Durability
from headwater.wire.fetch_sessions import FetchSessions
from headwater.wire.threads import Threads
from headwater.wire.topic_list import TopicList


@dataclass(slots=True, kw_only=True)
class Shared:
    durability: Durability = field(default_factory=Durability)
    arrivals: Arrivals = field(default_factory=Arrivals)
    fetch_sessions: FetchSessions = field(default_factory=FetchSessions)
    auto_creation: AutoCreation = field(default_factory=AutoCreation)
    topic_list: TopicList = field(default_factory=TopicList)
    append_threads: Threads | None = None
    """Appends have threads of their own, so that slow work of other kinds never stands before them."""

    cold_executor: Executor | None = None
    """For reads that wait for a disk or an archive."""
