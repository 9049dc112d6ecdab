"""The codecs give back what was packed, and cost no more than they may."""

import gzip
import random
import resource
import struct
import subprocess
import sys
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, InvalidRecord, UnsupportedFormat
from headwater.log.compression import CODECS, GZIP_CHUNK_BYTES, XERIAL_BLOCK_BYTES, codec_number, compress, decompress

PACKING = range(1, len(CODECS))
MEBIBYTE = 1024**2


def bare_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def zstd_with_window(exponent: int) -> bytes:
    """512 KiB of one letter in a frame that claims to need a window of 2**exponent bytes."""
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(exponent - 10) << 3])
    blocks = [struct.pack("<I", (131_072 << 3) | (1 << 1) | (block == 3))[:3] + b"a" for block in range(4)]
    return header + b"".join(blocks)


def bombs() -> dict[str, tuple[int, bytes]]:
    """What unpacks to 64 MiB, or claims to."""
    zeros = bytes(64 * MEBIBYTE)
    packed = {CODECS[codec]: (codec, compress(codec, zeros)) for codec in PACKING}
    member = gzip.compress(bytes(MEBIBYTE))
    return packed | {
        "gzip in members": (1, member * 64),
        "bare snappy": (2, bare_snappy(zeros)),
        "snappy that only claims": (2, b"\xff\xff\xff\xff\x0f"),
        "zstd with a wide window": (4, zstd_with_window(27)),
        "zstd with a window too wide": (4, zstd_with_window(31)),
        "zstd that only claims": (4, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40) + bytes(16)),
    }


@given(codec=st.integers(0, 4), data=st.binary(max_size=2000), times=st.integers(0, 200))
def test_what_was_packed_is_unpacked(codec: int, data: bytes, times: int) -> None:
    whole = data * times
    assert bytes(decompress(codec, compress(codec, whole), bytes_max=len(whole))) == whole


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, XERIAL_BLOCK_BYTES, MEBIBYTE])
def test_the_bound_is_exact_to_the_byte(codec: int, size: int) -> None:
    packed = compress(codec, b"a" * size)
    assert len(decompress(codec, packed, bytes_max=size)) == size
    with pytest.raises(InvalidRecord, match=f"more than {size - 1} bytes"):
        decompress(codec, packed, bytes_max=size - 1)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_frames_one_after_the_other_are_one_content(codec: int) -> None:
    packed = compress(codec, b"first") + compress(codec, b"second")
    assert bytes(decompress(codec, packed, bytes_max=100)) == b"firstsecond"


@given(data=st.binary(max_size=5000))
def test_snappy_without_the_java_frame_is_unpacked_too(data: bytes) -> None:
    assert bytes(decompress(2, bare_snappy(data), bytes_max=5000)) == data


def test_a_gzip_of_fifty_thousand_empty_members_is_quickly_done_with() -> None:
    packed = gzip.compress(b"") * 50_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert decompress(1, packed, bytes_max=10) == b""
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 0.4


@pytest.mark.parametrize("codec", PACKING)
def test_content_cut_anywhere_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(range(256)) * 20)
    cuts = [*range(40), *range(40, len(packed), 7)]
    taken = [cut for cut in cuts if _unpacked_or_refused(codec, packed[:cut]) is not None]
    # Nothing (gzip) and nothing but the frame's name (snappy) are whole contents of no bytes.
    assert taken in ([], [0], [16])


def _unpacked_or_refused(codec: int, data: bytes) -> bytes | None:
    try:
        return bytes(decompress(codec, data, bytes_max=100_000))
    except (CorruptBatch, InvalidRecord):
        return None


@pytest.mark.parametrize("codec", PACKING)
def test_garbled_content_is_unpacked_or_refused_with_a_declared_error(codec: int) -> None:
    dice = random.Random(codec)
    packed = compress(codec, b"some text, some more text, " * 50 + dice.randbytes(300))
    for _ in range(1500):
        garbled = bytearray(packed)
        for _ in range(dice.randint(1, 4)):
            garbled[dice.randrange(len(garbled))] = dice.randrange(256)
        unpacked = _unpacked_or_refused(codec, bytes(garbled))
        assert unpacked is None or len(unpacked) <= 100_000


def test_an_unknown_codec_is_named_in_the_error() -> None:
    for unknown in (5, 6, 7):
        with pytest.raises(UnsupportedFormat, match=str(unknown)):
            decompress(unknown, b"x", bytes_max=10)
        with pytest.raises(UnsupportedFormat, match=str(unknown)):
            compress(unknown, b"x")
    with pytest.raises(UnsupportedFormat, match="gzip, snappy, lz4, zstd"):
        codec_number("brotli")


RESERVE_AND_MEASURE = """
import resource
from headwater.log.compression import _target

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
target = _target(512 * 1024**2)
target[-1] = 1
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, target[0], len(target) // 1024**2)
"""


def test_memory_to_unpack_into_is_touched_by_the_codec_only() -> None:
    """Whoever fills it with zeros first keeps all other threads waiting for as long."""
    answer = subprocess.run([sys.executable, "-c", RESERVE_AND_MEASURE], capture_output=True, text=True, check=True)
    resident, first, size = map(int, answer.stdout.split())
    assert (first, size) == (0, 512)
    assert resident < 64, "MiB of resident memory"


def test_a_gzip_whose_content_fills_the_last_chunk_exactly_is_whole() -> None:
    for size in (GZIP_CHUNK_BYTES - 1, GZIP_CHUNK_BYTES, GZIP_CHUNK_BYTES + 1, 3 * GZIP_CHUNK_BYTES):
        for members in (1, 2):
            packed = gzip.compress(bytes(size)) * members
            assert decompress(1, packed, bytes_max=members * size) == bytes(members * size)


UNPACK_AND_MEASURE = """
import resource, sys
from pathlib import Path
from headwater.errors import CorruptBatch, InvalidRecord
from headwater.log.compression import decompress

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before = resident()
for file in sorted(Path(sys.argv[1]).iterdir()):
    try:
        unpacked = len(decompress(int(file.suffix[1:]), file.read_bytes(), bytes_max=1024**2))
        assert unpacked <= 1024**2, (file.name, unpacked)
    except (CorruptBatch, InvalidRecord):
        pass
print(resident() - before)
"""


def test_a_bomb_costs_no_more_memory_than_the_bound_allows(tmp_path: Path) -> None:
    for name, (codec, data) in bombs().items():
        (tmp_path / f"{name}.{codec}").write_bytes(data)
    answer = subprocess.run(
        [sys.executable, "-c", UNPACK_AND_MEASURE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(answer.stdout) <= 1 + 16, "MiB of resident memory"
