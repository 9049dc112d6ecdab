"""What the offsets topic holds: one thing to remember under a key."""

from typing import NamedTuple

from headwater.log.groups.consumer.records import StateKey, StateValue
from headwater.log.groups.member import SavedGroup
from headwater.log.groups.records import CommittedOffset, GroupKey, OffsetKey

EntryKey = OffsetKey | GroupKey | StateKey


class Entry(NamedTuple):
    """One thing to remember, or with None to forget."""

    key: EntryKey
    value: CommittedOffset | SavedGroup | StateValue | None
