"""What a stream says about its times beside the column they are in. Plain values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceTime:
    """Columns of the value; `received` None is the record's timestamp."""

    occurred: str
    sent: str
    received: str | None
    most_us: int
    """A correction larger than this is not believed."""
    into: str
    """The column that the estimate becomes."""


@dataclass(frozen=True)
class ClockRules:
    producer: str | None = None
    """The column that says who sent a row: each has a clock of its own."""
    ahead_us: int | None = None
    """A row that happened longer than this after the timestamp of its record is not believed."""
    behind_us: int | None = None
    """Nor one that happened longer than this before it."""
    device: DeviceTime | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "ClockRules":
        device = row.get("device")
        return cls(
            row.get("producer"), row.get("ahead_us"), row.get("behind_us"),
            None if device is None else DeviceTime(**device),
        )  # fmt: skip


NO_RULES = ClockRules()
