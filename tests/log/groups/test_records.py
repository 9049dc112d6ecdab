"""The bytes in the offsets topic are Kafka's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatch
from headwater.log.groups.member import SavedGroup, SavedMember
from headwater.log.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)

names = st.text(max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
timeouts = st.integers(0, 2**31 - 1)
contents = st.binary(max_size=9)
members = st.builds(SavedMember, names, st.none() | names, names, names, timeouts, timeouts, contents, contents)
groups = st.builds(
    SavedGroup, names, names, int32, st.none() | names, st.none() | names, st.lists(members, max_size=3).map(tuple)
)


def test_the_key_of_an_offset_is_laid_out_as_kafka_does() -> None:
    key = encode_offset_key(OffsetKey("g1", "orders", 7))
    assert key == bytes.fromhex("0001 0002 6731 0006 6f7264657273 00000007")


def test_an_offset_is_laid_out_as_kafka_does() -> None:
    value = encode_offset(CommittedOffset(258, 5, "hi", 1_700_000_000_000))
    assert value == bytes.fromhex("0003 0000000000000102 00000005 0002 6869 0000018bcfe56800")


def test_the_key_of_a_group_is_laid_out_as_kafka_does() -> None:
    assert encode_group_key(GroupKey("g1")) == bytes.fromhex("0002 0002 6731")


def test_a_group_is_laid_out_as_kafka_does() -> None:
    member = SavedMember("m", None, "c", "/h", 3, 2, b"\x01", b"\x02\x03")
    group = SavedGroup("g1", "consumer", 4, "range", "m", (member,))
    assert encode_group(group, now_ms=258) == bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 6d 0000000000000102 00000001"
        "0001 6d ffff 0001 63 0002 2f68 00000003 00000002 00000001 01 00000002 0203"
    )


@pytest.mark.parametrize(
    "value, expected",
    [
        ("0000 0000000000000102 0002 6869 0000000000000007", CommittedOffset(258, -1, "hi", 7)),
        ("0001 0000000000000102 0002 6869 0000000000000007 0000000000000009", CommittedOffset(258, -1, "hi", 7)),
        ("0002 0000000000000102 0002 6869 0000000000000007", CommittedOffset(258, -1, "hi", 7)),
    ],
)
def test_older_offsets_are_understood(value: str, expected: CommittedOffset) -> None:
    assert decode_offset(bytes.fromhex(value)) == expected


def test_older_groups_are_understood() -> None:
    value = bytes.fromhex("0000 0001 78 00000004 ffff ffff 00000001 0001 6d 0001 63 0001 68 00000002 00000000 00000000")
    member = SavedMember("m", None, "c", "h", 2, 2, b"", b"")
    assert decode_group("g", value) == SavedGroup("g", "x", 4, None, None, (member,))


def test_keys_of_other_kinds_are_not_ours() -> None:
    assert decode_key(bytes.fromhex("0003 0001 61")) is None


@given(names, names, int32)
def test_keys_of_offsets_come_back(group: str, topic: str, partition: int) -> None:
    key = OffsetKey(group, topic, partition)
    assert decode_key(encode_offset_key(key)) == key


@given(int64, int32, names, int64)
def test_offsets_come_back(offset: int, epoch: int, metadata: str, commit_ms: int) -> None:
    committed = CommittedOffset(offset, epoch, metadata, commit_ms)
    assert decode_offset(encode_offset(committed)) == committed


@given(groups)
def test_groups_come_back(group: SavedGroup) -> None:
    assert decode_group(group.id, encode_group(group, now_ms=1)) == group


@given(st.binary(max_size=100))
def test_garbage_is_named_as_such(garbage: bytes) -> None:
    for decode in (decode_key, decode_offset, lambda value: decode_group("g", value)):
        try:
            decode(garbage)
        except CorruptBatch:
            pass


def test_a_lie_about_the_number_of_members_is_not_believed() -> None:
    with pytest.raises(CorruptBatch, match="cannot be in"):
        decode_group("g", bytes.fromhex("0003 0000 00000004 ffff ffff 0000000000000102 7fffffff"))
