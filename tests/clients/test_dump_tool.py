"""Kafka's own dump tool reads the files of a partition: segments, offset indexes and time indexes."""

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log import Log
from headwater.record import Record
from tests.clients.brokers.maven import java_command, kafka_class_path
from tests.clients.brokers.process import NotAvailable
from tests.clients.message import CODECS

NOON_MS = 1_700_000_000_000
BATCHES, RECORDS_PER_BATCH = 200, 20
RECORD_LINE = re.compile(r"^\| offset: (\d+) CreateTime: (\d+) .* headerKeys: \[h\] key: (\S+) payload: (\S+)$", re.M)
BATCH_LINE = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) .* compresscodec: (\w+) crc: \d+ isvalid: (\w+)$", re.M)


def batch(number: int) -> list[Record]:
    return [
        Record(
            b"value-%d-%d" % (number, number_in_batch),
            b"key-%d" % number_in_batch,
            [("h", b"x")],
            NOON_MS + number * 100 + number_in_batch,
        )
        for number_in_batch in range(RECORDS_PER_BATCH)
    ]


@pytest.fixture(scope="module")
def partition_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of several segments with dense indexes and all codecs in turn."""
    data = tmp_path_factory.mktemp("dumped")
    log = Log.open(data)
    log.create_topic("dumped", configs={"segment.bytes": "30000", "index.interval.bytes": "1000"})
    for number in range(BATCHES):
        log.append("dumped", batch(number), partition=0, compression=CODECS[number % len(CODECS)])
    log.close()
    return data / "dumped-0"


def files(folder: Path, *endings: str) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in endings)


def dump(paths: list[Path], *options: str) -> str:
    try:
        command = [java_command(), "-cp", kafka_class_path(), "org.apache.kafka.tools.DumpLogSegments", *options]
    except NotAvailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run([*command, "--files", ",".join(map(str, paths))], capture_output=True, text=True, check=True)
    # Mismatches are reported on the error stream, where the logging library complains as well, and the JVM of its
    # options.
    complaints = [line for line in done.stderr.splitlines() if not line.startswith(("SLF4J", "Picked up JAVA"))]
    return done.stdout + "\n".join(complaints)


def expected_records() -> Iterator[tuple[str, str, str, str]]:
    for number in range(BATCHES):
        for number_in_batch, record in enumerate(batch(number)):
            offset = number * RECORDS_PER_BATCH + number_in_batch
            yield str(offset), str(record.timestamp_ms), f"key-{number_in_batch}", f"value-{number}-{number_in_batch}"


def test_every_record_is_found_with_its_offset_time_and_content(partition_folder: Path) -> None:
    segments = files(partition_folder, ".log")
    assert len(segments) > 2
    assert RECORD_LINE.findall(dump(segments, "--print-data-log")) == list(expected_records())


def test_every_batch_is_valid_and_in_its_codec(partition_folder: Path) -> None:
    batches = BATCH_LINE.findall(dump(files(partition_folder, ".log")))
    first = [number * RECORDS_PER_BATCH for number in range(BATCHES)]
    last = [start + RECORDS_PER_BATCH - 1 for start in first]
    codecs = [CODECS[number % len(CODECS)] for number in range(BATCHES)]
    assert batches == [(str(a), str(b), codec, "true") for a, b, codec in zip(first, last, codecs, strict=True)]


def test_the_indexes_pass_the_check_of_a_starting_broker(partition_folder: Path) -> None:
    indexes = files(partition_folder, ".index", ".timeindex")
    assert dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)


def test_every_entry_of_an_index_points_to_its_batch(partition_folder: Path) -> None:
    output = dump(files(partition_folder, ".index", ".timeindex"), "--verify-index-only")
    assert [line for line in output.splitlines() if not line.startswith("Dumping")] == []


def test_the_check_of_entries_finds_a_wrong_one(partition_folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(partition_folder, tmp_path / "dumped-0")
    index = files(copied, ".index")[0]
    offset, position = struct.unpack(">ii", index.read_bytes()[:8])
    index.write_bytes(struct.pack(">ii", offset - 1, position) + index.read_bytes()[8:])
    assert "Mismatches in" in dump([index], "--verify-index-only")
