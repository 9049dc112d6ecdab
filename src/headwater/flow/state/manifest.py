"""What a version of state consists of, and how that is written down (pure).

    versions/000000000041.json      {"crc32c": 2774181210, "state": {"format": 1, "version": 41, "base": 40, ...}}
    runs/00003-9f…c2.arrow          one sorted run of shard 3 (run.py)

A version is the list of its runs, for each shard from the oldest to the newest; what a newer run says about a key
hides what older ones of its slot say. A slot is a range of time: what windows keep is put into slots, so that all of a
range is dropped by no longer naming its runs. State that has no time is in one slot, EVERYTHING. Runs never change,
and versions share them: a manifest is all that a commit writes beside the runs of what changed. The checksum covers the
state in its canonical form (sorted names, no spaces).
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from crc32c import crc32c

from headwater.errors import StateDamaged

FORMAT = 1
EMPTY = -1
"""The version before the first: no keys. It needs no file."""

VERSIONS = "versions"
RUNS = "runs"
HASH = "_hash"
DELETED = "_deleted"


class Slot(NamedTuple):
    """Times from `begin` up to, but without, `end`. Slots of a shard do not overlap."""

    begin: int
    end: int


EVERYTHING = Slot(0, 0)


@dataclass(frozen=True)
class StateSchema:
    """Columns of an operator's state: those of the key, and the values kept for it.

    `order` are columns of the key that are int64 and never null, by which rows of the same hash are sorted: then the
    hash is that of the other columns alone, and all rows that share those lie side by side.
    """

    key: pa.Schema
    values: pa.Schema
    order: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.Schema:
        """Rows as runs hold them. Everything may be null, since a deleted key has no values."""
        named = [*self.key, *self.values]
        fields = [pa.field(field.name, field.type) for field in named]
        return pa.schema([pa.field(HASH, pa.int64()), *fields, pa.field(DELETED, pa.bool_())])

    def to_json(self) -> dict[str, Any]:
        parts = {"key": self.key, "values": self.values}
        texts = {name: base64.b64encode(part.serialize().to_pybytes()).decode() for name, part in parts.items()}
        return {**texts, "order": list(self.order)} if self.order else texts

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "StateSchema":
        key, values = (pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content[name]))) for name in ("key", "values"))
        return cls(key, values, tuple(content.get("order", ())))

    def same_as(self, other: "StateSchema") -> bool:
        names = self.key.names == other.key.names and self.order == other.order
        return bool(self.rows.equals(other.rows)) and names


@dataclass(frozen=True)
class RunInfo:
    """A run as it was written: durable, but part of the state only once a manifest names it.

    `replaces` are the runs it was merged from, beside new rows; `reaches_oldest` says that there was none older, and
    deleted keys were left out. `keys_change` is how many keys more there are, and `base` the version it builds on.
    `keys`, of runs in a slot of time, is how many of the slot's keys are there because of this run.
    """

    shard: int
    name: str
    rows: int
    bytes: int
    checksum: int
    first_hash: int
    last_hash: int
    keys_change: int = 0
    base: str = ""
    reaches_oldest: bool = False
    replaces: tuple[str, ...] = ()
    slot: Slot = EVERYTHING
    keys: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunInfo":
        return cls.of(json.loads(text))

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "RunInfo":
        slot = Slot(*content.get("slot", EVERYTHING))
        return cls(**{**content, "replaces": tuple(content.get("replaces", ())), "slot": slot})

    def settled(self) -> "RunInfo":
        """As a manifest keeps it: where it came from no longer matters."""
        return replace(self, keys_change=0, base="", reaches_oldest=False, replaces=())


@dataclass(frozen=True)
class Shard:
    keys: int = 0
    runs: tuple[RunInfo, ...] = ()

    def of_slot(self, slot: Slot) -> tuple[RunInfo, ...]:
        return tuple(run for run in self.runs if run.slot == slot)


@dataclass(frozen=True)
class Manifest:
    version: int
    base: int
    fingerprint: str
    schema: StateSchema
    shards: tuple[Shard, ...]

    @property
    def token(self) -> str:
        """Distinguishes this version from another of the same number."""
        return f"{self.version}-{crc32c(_canonical(self._state())):08x}"

    def run_names(self) -> set[str]:
        return {run.name for shard in self.shards for run in shard.runs}

    def to_bytes(self) -> bytes:
        state = self._state()
        return json.dumps({"crc32c": crc32c(_canonical(state)), "state": state}).encode()

    def _state(self) -> dict[str, Any]:
        shards = [{"keys": shard.keys, "runs": [_of_run(run) for run in shard.runs]} for shard in self.shards]
        return {
            "format": FORMAT,
            "version": self.version,
            "base": self.base,
            "fingerprint": self.fingerprint,
            "schema": self.schema.to_json(),
            "shards": shards,
        }

    @classmethod
    def from_bytes(cls, content: bytes, path: str) -> "Manifest":
        """StateDamaged, with the path, unless these are the bytes that were written."""
        try:
            whole = json.loads(content)
            state = whole["state"]
            if whole["crc32c"] != crc32c(_canonical(state)):
                raise ValueError("its checksum does not fit")
            if state["format"] != FORMAT:
                raise ValueError(f"it is of format {state['format']}, and this version reads {FORMAT}")
            shards = tuple(Shard(shard["keys"], tuple(map(RunInfo.of, shard["runs"]))) for shard in state["shards"])
            schema = StateSchema.from_json(state["schema"])
            return cls(state["version"], state["base"], state["fingerprint"], schema, shards)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateDamaged(path, str(error)) from None


def _of_run(run: RunInfo) -> dict[str, Any]:
    kept = ("shard", "name", "rows", "bytes", "checksum", "first_hash", "last_hash")
    timed = {} if run.slot == EVERYTHING else {"slot": list(run.slot), "keys": run.keys}
    return {**{name: getattr(run, name) for name in kept}, **timed}


def slots_of(runs: Iterable[RunInfo]) -> list[Slot]:
    """In the order of time."""
    return sorted({run.slot for run in runs})


def _canonical(state: object) -> bytes:
    return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()


def path_of_version(version: int) -> str:
    return f"{VERSIONS}/{version:012d}.json"


def version_of_name(name: str) -> int | None:
    """The version a file in `versions` holds; None for what is not a manifest."""
    number, dot, rest = name.partition(".")
    return int(number) if dot and rest == "json" and number.isdecimal() else None
