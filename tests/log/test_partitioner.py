from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from headwater.log.partitioner import choose_partitions, murmur2, partition_of
from headwater.record import Record


@given(key=st.binary(max_size=40))
def test_keys_are_hashed_as_kafkas_clients_do(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFF_FFFF


@given(key=st.binary(max_size=40), partitions=st.integers(1, 100))
def test_a_key_always_goes_to_the_same_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions
    assert partition_of(key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFF_FFFF) % partitions


@given(keys=st.lists(st.none() | st.binary(max_size=3), max_size=30), partitions=st.integers(1, 8))
def test_records_keep_their_order_in_each_partition(keys: list[bytes | None], partitions: int) -> None:
    records = [Record(b"%d" % index, key=key) for index, key in enumerate(keys)]
    chosen = choose_partitions(records, partitions)
    assert sorted(record.value or b"" for group in chosen.values() for record in group) == sorted(
        b"%d" % index for index in range(len(keys))
    )
    for number, group in chosen.items():
        assert [int(record.value or b"") for record in group] == sorted(int(record.value or b"") for record in group)
        assert all(partition_of(record.key, partitions) == number for record in group if record.key is not None)


def test_records_without_a_key_stay_together_and_go_round() -> None:
    numbers = [set(choose_partitions([Record(b"a"), Record(b"b")], 4)) for _ in range(4)]
    assert all(len(number) == 1 for number in numbers)
    assert set.union(*numbers) == {0, 1, 2, 3}


def test_an_empty_key_is_a_key() -> None:
    numbers = {number for _ in range(4) for number in choose_partitions([Record(b"a", key=b"")], 4)}
    assert numbers == {partition_of(b"", 4)}
