"""The bound that is read off a packed batch holds, whatever the batch is."""

import gzip
import random

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, InvalidRecord
from headwater.log.compression import CODECS, check_unpacked_size, compress, decompress
from headwater.log.unpacked_size import STEPS_MAX, size_bound

MEBIBYTE = 1024**2
CONTENTS = st.builds(lambda data, times: data * times, st.binary(max_size=500), st.integers(0, 3000))


@given(codec=st.integers(0, 4), content=CONTENTS)
def test_no_content_is_larger_than_its_bound(codec: int, content: bytes) -> None:
    bound = size_bound(codec, compress(codec, content))
    assert bound is not None
    assert bound >= len(content)


@given(content=CONTENTS, block=st.sampled_from([4, 5, 6, 7]), linked=st.booleans(), said=st.booleans())
def test_lz4_of_other_writers_has_a_bound(content: bytes, block: int, linked: bool, said: bool) -> None:
    packed = lz4.frame.compress(
        content, block_size=block, block_linked=linked, content_checksum=said, block_checksum=linked, store_size=said
    )
    bound = size_bound(3, packed * 2)
    assert bound is not None
    assert bound >= 2 * len(content)


@given(content=CONTENTS, level=st.integers(1, 12), said=st.booleans())
def test_zstd_of_other_writers_has_a_bound(content: bytes, level: int, said: bool) -> None:
    writer = zstandard.ZstdCompressor(level=level, write_content_size=said, write_checksum=said)
    packed = writer.compress(content)
    bound = size_bound(4, packed * 2)
    assert bound is not None
    assert bound >= 2 * len(content)


def test_the_bound_of_zstd_is_near_enough_that_ordinary_batches_are_not_unpacked() -> None:
    words = random.Random(3).choices([b"some ", b"words ", b"that ", b"repeat "], k=200_000)
    content = b"".join(words)
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(content)
    bound = size_bound(4, packed)
    assert bound is not None
    assert len(content) <= bound <= len(content) + 128 * 1024


@pytest.mark.parametrize("codec", range(1, 5))
def test_whatever_the_bytes_are_the_bound_holds_or_is_not_known(codec: int) -> None:
    dice = random.Random(codec)
    packed = compress(codec, b"some text, some more text, " * 50 + dice.randbytes(300))
    for _ in range(2000):
        garbled = bytearray(packed[: dice.randint(1, len(packed))])
        for _ in range(dice.randint(0, 4)):
            garbled[dice.randrange(len(garbled))] = dice.randrange(256)
        bound = size_bound(codec, garbled)
        try:
            content = decompress(codec, garbled, bytes_max=MEBIBYTE)
        except (CorruptBatch, InvalidRecord):
            continue
        assert bound is None or bound >= len(content)


@pytest.mark.parametrize(
    "codec, packed",
    [
        (2, b"\xff\xff\xff\xff\x0f" + bytes(20)),  # 4 GiB in twenty bytes
        (2, b"\xff\xff\xff\xff\xff\xff"),
        (3, lz4.frame.compress(b"") * STEPS_MAX),
        (4, zstandard.ZstdCompressor().compress(b"") * (STEPS_MAX + 1)),
        (4, bytes(10)),
        (3, bytes(10)),
        (3, b""),
    ],
)  # fmt: skip
def test_what_has_no_structure_or_too_much_of_it_has_no_bound(codec: int, packed: bytes) -> None:
    assert not size_bound(codec, packed)


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_content_is_refused_from_the_first_byte_too_much(codec: int) -> None:
    packed = compress(codec, bytes(MEBIBYTE))
    check_unpacked_size(codec, packed, bytes_max=MEBIBYTE)
    with pytest.raises(InvalidRecord, match=f"more than {MEBIBYTE - 1} bytes"):
        check_unpacked_size(codec, packed, bytes_max=MEBIBYTE - 1)


@pytest.mark.parametrize("codec", range(1, 5))
def test_small_batches_are_not_unpacked_to_be_checked(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.log.compression.decompress", lambda *_, **__: pytest.fail(CODECS[codec]))
    packed = compress(codec, random.Random(0).randbytes(20_000) + bytes(20_000))
    check_unpacked_size(codec, packed, bytes_max=32 * MEBIBYTE)


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_refused_unread() -> None:
    claims = b"\xff\xff\xff\x0f" + bytes(cramjam.snappy.compress_raw(b"some text"))[1:]
    with pytest.raises(CorruptBatch, match="cannot have"):
        decompress(2, claims, bytes_max=2**31)


def test_gzip_members_are_counted_together() -> None:
    member = gzip.compress(bytes(MEBIBYTE))
    with pytest.raises(InvalidRecord):
        check_unpacked_size(1, member * 3, bytes_max=2 * MEBIBYTE)
