"""ListOffsets: where a partition starts and ends, and which record belongs to a time."""

import pytest

from tests.clients.client import EARLIEST, LATEST, Client
from tests.clients.message import Message, Producing, contents
from tests.clients.parametrize import for_clients

NOON = 1_700_000_000_000
TIMES = (NOON, NOON + 1000, NOON + 500, NOON + 2000, NOON + 2000, NOON + 1500)


@pytest.fixture
def timed(admin: Client, topic: str) -> str:
    """A topic whose records, one batch each, have TIMES."""
    for index, time in enumerate(TIMES):
        admin.produce(topic, [Message(b"%d" % index, timestamp_ms=time)])
    return topic


@for_clients("offset_at")
def test_an_empty_partition_starts_and_ends_at_zero(client: Client, topic: str) -> None:
    assert (client.offset_at(topic, 0, EARLIEST), client.offset_at(topic, 0, LATEST)) == (0, 0)


@for_clients("offset_at")
def test_the_latest_offset_is_that_of_the_next_record(client: Client, timed: str) -> None:
    assert (client.offset_at(timed, 0, EARLIEST), client.offset_at(timed, 0, LATEST)) == (0, len(TIMES))


@for_clients("offset_at")
def test_the_earliest_offset_follows_deleted_records(client: Client, admin: Client, timed: str) -> None:
    admin.delete_records(timed, 0, 2)
    assert client.offset_at(timed, 0, EARLIEST) == 2


@for_clients("offset_at")
@pytest.mark.parametrize(
    ("time", "offset"),
    [(0, 0), (NOON, 0), (NOON + 1, 1), (NOON + 1000, 1), (NOON + 1001, 3), (NOON + 2000, 3), (NOON + 2001, None)],
)
def test_a_time_finds_the_first_record_at_or_after_it(
    client: Client, timed: str, time: int, offset: int | None
) -> None:
    assert client.offset_at(timed, 0, time) == offset


@for_clients("offset_at")
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_time_is_found_inside_a_batch(client: Client, admin: Client, topic: str, codec: str) -> None:
    messages = [Message(b"x", timestamp_ms=NOON + 10 * index) for index in range(100)]
    admin.produce(topic, messages, Producing(compression=codec))
    assert client.offset_at(topic, 0, NOON + 555) == 56


@for_clients("offset_of_newest")
def test_the_newest_record_is_the_one_with_the_largest_time(client: Client, timed: str) -> None:
    assert client.offset_of_newest(timed, 0) == 3


@for_clients("offset_of_newest")
def test_an_empty_partition_has_no_newest_record(client: Client, topic: str) -> None:
    assert client.offset_of_newest(topic, 0) is None


@for_clients("offset_at", "fetch")
def test_seeking_by_time_reads_from_there(client: Client, timed: str) -> None:
    offset = client.offset_at(timed, 0, NOON + 1001)
    assert offset is not None
    assert contents(client.fetch(timed, 0, offset, 3)) == [Message(b"3"), Message(b"4"), Message(b"5")]
