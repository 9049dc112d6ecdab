"""Compiled code that reads by address must not look behind the last byte."""

import ctypes
import mmap
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.formats.decoding import decoder_for
from headwater.flow.formats.schema import parse_ddl
from tests.flow.formats.test_json_decoding import FLAT, NESTED, flat, mutated, nested

Place = Callable[[bytes], pa.BinaryArray]
CSV = "a bigint, b double, c decimal(12,2), d timestamp, e date, f boolean, g binary, h string"
RECORD = b'-12,1.5e3,"12.50",2024-02-29T12:00:00.5+01:00,2024-02-29,true,YQ==,"x ""y"" \xc3\xa9"'
NO_ACCESS = 0


@pytest.fixture(scope="module")
def at_the_edge() -> Iterator[Place]:
    """Puts a value so that its last byte is the last one that the process may read."""
    room, page = 1 << 16, mmap.PAGESIZE
    memory = mmap.mmap(-1, room + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + room), ctypes.c_size_t(page), NO_ACCESS) == 0

    def place(value: bytes) -> pa.BinaryArray:
        ctypes.memmove(start + room - len(value), value, len(value))
        offsets = pa.py_buffer(np.array([0, len(value)], dtype=np.int32))
        data = pa.foreign_buffer(start + room - len(value), len(value), memory)
        return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])

    yield place
    assert libc.mprotect(ctypes.c_void_p(start + room), ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE) == 0


@settings(max_examples=40)
@given(st.one_of(flat, mutated(flat), st.binary(min_size=1, max_size=12)))
def test_flat_json_is_read_to_its_last_byte_and_no_further(at_the_edge: Place, value: bytes) -> None:
    decoder = decoder_for("json", parse_ddl(FLAT), {"timestamp": "millis"})
    for end in range(1, min(len(value), 60) + 1):
        decoder.decode(at_the_edge(value[:end]))
    decoder.decode(at_the_edge(value or b"{"))


@given(st.one_of(nested, mutated(nested)))
def test_nested_json_is_read_to_its_last_byte_and_no_further(at_the_edge: Place, value: bytes) -> None:
    if value:
        decoder_for("json", parse_ddl(NESTED)).decode(at_the_edge(value))


@settings(max_examples=20)
@given(mutated(st.just(RECORD)))
def test_csv_and_text_are_read_to_their_last_byte_and_no_further(at_the_edge: Place, value: bytes) -> None:
    csv, text = decoder_for("csv", parse_ddl(CSV)), decoder_for("text", parse_ddl("a string"))
    for end in range(1, len(value) + 1):
        csv.decode(at_the_edge(value[:end]))
        text.decode(at_the_edge(value[:end]))


def test_the_edge_is_one(at_the_edge: Place) -> None:
    """Reading one byte more ends a process: otherwise the tests above could not fail."""
    import subprocess
    import sys

    program = """
import ctypes, mmap
memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0)
ctypes.string_at(start + mmap.PAGESIZE - 1, 2)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode < 0
