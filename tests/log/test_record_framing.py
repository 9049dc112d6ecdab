"""Records whose contents were written before their batch was known are in it as if they had not been."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.batch_format import encode_batch
from headwater.log.kernels import murmur2
from headwater.log.partitioner import murmur2 as reference_murmur2
from headwater.log.record_contents import contents_of, parts_of
from headwater.log.record_framing import encode_contents
from headwater.record import Record

some_bytes = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"", b"x" * 63, b"x" * 64, b"x" * 9000]))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=2).map(tuple)
records = st.builds(
    Record, some_bytes, some_bytes, headers, st.one_of(st.integers(0, 100), st.integers(-(2**62), 2**62 - 1))
)


@settings(max_examples=100)
@given(rows=st.lists(records, min_size=1, max_size=80), data=st.data())
def test_pieces_of_contents_make_the_batch_of_their_records(rows: list[Record], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    first = data.draw(st.integers(0, len(rows) - 1))
    end = data.draw(st.integers(first + 1, len(rows)))
    pieces = [contents_of(part) for part in (rows[:cut], rows[cut:]) if part]
    assert bytes(encode_contents(parts_of(pieces, first, end))) == bytes(encode_batch(rows[first:end]))


def test_contents_say_whether_every_record_has_a_key() -> None:
    assert contents_of([Record(b"v", b"k"), Record(None, b"")]).keyed
    assert not contents_of([Record(b"v", b"k"), Record(b"v")]).keyed


@given(key=st.binary(max_size=40))
def test_the_compiled_hash_of_keys_is_that_of_the_clients(key: bytes) -> None:
    data = contents_of([Record(key)]).data
    assert murmur2(data, len(data) - 1 - len(key), len(data) - 1) == reference_murmur2(key)
