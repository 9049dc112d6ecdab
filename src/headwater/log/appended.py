"""What a partition answers to an append, and whose it is."""

from typing import NamedTuple


class Owner(NamedTuple):
    """The owner of the partition: written into each checkpoint, in case the topic's file is lost."""

    cluster_id: str
    topic_id: str


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic stamps records itself
    start_offset: int
    duplicate: bool
