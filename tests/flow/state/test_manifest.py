import json

import pyarrow as pa
import pytest

from headwater.errors import StateDamaged
from headwater.flow.state import RunInfo, StateSchema
from headwater.flow.state.manifest import Manifest, Shard, path_of_version, version_of_name
from tests.flow.state.subjects import SCHEMA

RUN = RunInfo(1, "runs/00001-ab.arrow", 10, 1000, 77, -5, 2**63 - 1)
MANIFEST = Manifest(7, 6, "counts of clicks", SCHEMA, (Shard(), Shard(10, (RUN,))))


def test_a_manifest_is_read_as_it_was_written() -> None:
    again = Manifest.from_bytes(MANIFEST.to_bytes(), "x")
    assert (again.version, again.base, again.fingerprint, again.shards) == (7, 6, "counts of clicks", MANIFEST.shards)
    assert again.schema.same_as(SCHEMA)
    assert again.token == MANIFEST.token


def test_a_run_is_read_as_a_task_reported_it() -> None:
    run = RunInfo(1, "a", 10, 1000, 77, -5, 5, keys_change=-2, base="6-ab", reaches_oldest=True, replaces=("b", "c"))
    assert RunInfo.from_json(run.to_json()) == run


def test_where_a_run_came_from_is_not_kept() -> None:
    run = RunInfo(1, "a", 10, 1000, 77, -5, 5, keys_change=-2, base="6-ab", reaches_oldest=True, replaces=("b", "c"))
    assert run.settled() == RunInfo(1, "a", 10, 1000, 77, -5, 5)


def test_two_makings_of_a_version_can_be_told_apart() -> None:
    other = Manifest(7, 6, "counts of clicks", SCHEMA, (Shard(), Shard(11, (RUN,))))
    assert other.token != MANIFEST.token


def outcome(content: bytes) -> str:
    try:
        return Manifest.from_bytes(content, "versions/7").token
    except StateDamaged as damage:
        return str(damage).partition(":")[0]


def test_every_flipped_bit_is_noticed_or_means_the_same() -> None:
    content = MANIFEST.to_bytes()
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        assert outcome(bytes(damaged)) in (MANIFEST.token, "state file versions/7 is damaged")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"crc32c": 1, "state": 5}', b"\xff\xfe"])
def test_what_is_not_a_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(StateDamaged, match="rebuild the view from the log"):
        Manifest.from_bytes(content, "versions/7")


def test_a_manifest_of_a_later_format_is_refused_in_a_sentence() -> None:
    from crc32c import crc32c

    state = {**json.loads(MANIFEST.to_bytes())["state"], "format": 2}
    checksum = crc32c(json.dumps(state, sort_keys=True, separators=(",", ":")).encode())
    with pytest.raises(StateDamaged, match="it is of format 2, and this version reads 1"):
        Manifest.from_bytes(json.dumps({"crc32c": checksum, "state": state}).encode(), "x")


def test_schemas_are_the_same_if_names_types_and_key_are() -> None:
    key, values = pa.schema([pa.field("a", pa.int64(), nullable=False)]), pa.schema([("b", pa.string())])
    assert StateSchema(key, values).same_as(StateSchema(pa.schema([("a", pa.int64())]), values))
    assert not StateSchema(key, values).same_as(StateSchema(key, pa.schema([("b", pa.binary())])))
    assert not StateSchema(key, values).same_as(
        StateSchema(pa.schema([("a", pa.int64()), ("b", pa.string())]), pa.schema([]))
    )


def test_names_of_versions_sort_as_their_numbers_do() -> None:
    assert path_of_version(9) < path_of_version(10)
    assert version_of_name(path_of_version(41).rpartition("/")[2]) == 41


@pytest.mark.parametrize("name", ["000000000041.json.new", "x.json", "41", "-1.json", ".json"])
def test_other_files_are_no_versions(name: str) -> None:
    assert version_of_name(name) is None
