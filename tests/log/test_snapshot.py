"""What readers are given, also when the disk has changed what lies there."""

import pytest

from headwater.errors import DamagedRange
from headwater.log.batch_format import HEADER_BYTES, read_header
from tests.log.subjects import Subject, batch, headers_in

CONFIGS = {"segment.bytes": "1300"}


def sealed(index_interval: int, values: int = 40) -> Subject:
    """Batches of 128 bytes in segments of ten, found by the log as it left them."""
    subject = Subject(CONFIGS | {"index.interval.bytes": str(index_interval)})
    for number in range(values):
        subject.put(b"%02d" % number + b"." * (128 - len(batch(b".."))))
    subject.restart()
    assert subject.partition.recovery_report == []
    assert len(subject.partition.segments) == 4
    return subject


def change_byte(subject: Subject, number: int, byte: int, mask: int) -> None:
    path = subject.path(number // 10)
    data = subject.bytes_of(path)
    position = headers_in(data)[number % 10][0] + byte
    subject.overwrite(path, position, bytes([data[position] ^ mask]))
    subject.restart()


def served_from(subject: Subject, offset: int) -> list[int]:
    """Offsets of the batches a client gets that fetches from here to the end."""
    found: list[int] = []
    while offset < subject.partition.high_watermark:
        slices = subject.partition.read_verified(offset, bytes_max=300)
        if not slices.slices:
            return found
        data = b"".join(piece.file.read_at(piece.position, piece.length) for piece in slices.slices)
        first = True
        while len(data) >= HEADER_BYTES and len(data) >= (header := read_header(data)).size:
            assert header.last_offset >= offset
            found.append(header.base_offset)
            offset, data, first = header.next_offset, data[header.size :], False
        assert not first, "at least one whole batch"
    return found


@pytest.mark.parametrize("index_interval", [0, 4096])
@pytest.mark.parametrize("number", [3, 9, 39])
@pytest.mark.parametrize(
    "what, byte, mask",
    [
        ("length, to another batch", 11, 0x80),
        ("length, into a batch", 11, 0x41),
        ("length, far past the end", 9, 0x40),
        ("length, negative", 8, 0x80),
        ("length of nothing", 11, 0x74),
        ("magic", 16, 0x01),
        ("checksum", 18, 0x01),
        ("last offset, after others", 26, 0x05),
        ("base offset, out of this world", 0, 0x40),
        ("value", 100, 0x20),
    ],
)
def test_damage_hides_no_other_batch_wherever_a_client_starts(
    what: str, byte: int, mask: int, number: int, index_interval: int
) -> None:
    for start in (number, number + 1, number + 3):
        subject = sealed(index_interval)
        change_byte(subject, number, byte, mask)
        if start < 40:
            assert served_from(subject, start) == [offset for offset in range(start, 40) if offset != number], what


def test_what_was_not_verified_yet_says_so_and_what_was_is_believed() -> None:
    subject = sealed(0)
    assert not subject.partition.read(5, bytes_max=300).verified
    subject.partition.read_verified(5, bytes_max=300)
    assert subject.partition.read(5, bytes_max=300).verified


def test_what_this_process_wrote_needs_no_verification() -> None:
    subject = Subject(CONFIGS)
    subject.fill(5)
    assert subject.partition.read(3, bytes_max=1000).verified


def test_a_batch_is_verified_together_with_the_headers_that_lead_to_it() -> None:
    subject = sealed(4096)
    segment = subject.partition.segments[0]
    position, header = headers_in(subject.bytes_of(segment.log_path))[5]
    segment.verified.add(position, position + header.size)
    assert not subject.partition.read(5, bytes_max=1).verified


def test_nothing_invisible_is_served_after_damage_at_the_end_of_a_segment() -> None:
    subject = Subject(CONFIGS)
    subject.fill(3)
    partition = subject.partition
    data = subject.bytes_of(subject.path(0))
    position = headers_in(data)[2][0]
    subject.overwrite(subject.path(0), position + 70, b"\xff")
    assert partition.quarantine(2) is not None
    partition.roll()
    partition.append(batch(b"not durable yet"), durable=True)
    assert partition.read(2, bytes_max=1000).slices == []
    assert partition.read_verified(2, bytes_max=1000).slices == []


def test_damage_that_cannot_be_made_out_is_an_error_not_an_endless_search() -> None:
    subject = sealed(0)
    subject.partition.quarantine = lambda _: None  # type: ignore[method-assign,assignment]
    change_byte(subject, 5, 100, 1)
    subject.partition.quarantine = lambda _: None  # type: ignore[method-assign,assignment]
    with pytest.raises(DamagedRange):
        subject.partition.read_verified(5, bytes_max=100)
