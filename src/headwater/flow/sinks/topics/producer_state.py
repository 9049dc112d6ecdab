"""What a topic sink keeps between batches, so that a repeated batch is the same to the last byte. Pure.

`sequences` are those at the start of the batch that comes next, and `partitions`, `batch_bytes`, `compression` and
`keyless` are what that batch is divided by: they change only together with `batch`, when the batch before is in.
`rounds` says how much of the next batch is in already, and `offsets` where each partition was after what is known to be
in: what the job sent since then lies behind.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

SEQUENCES = 2**31
EPOCH_MAX = 2**15 - 1
BY_COUNT, BY_OFFSET = "count", "offset"
"""How rows without a key are spread: as many of the batch as come before one, which earlier releases went by, or its
offset, which a task knows that has not all of them."""


@dataclass(frozen=True)
class ProducerState:
    job: str
    topic: str
    producer_id: int
    epoch: int
    partitions: int
    batch_bytes: int
    compression: str
    batch: int = -1
    rounds: int = 0
    sequences: Mapping[int, int] = field(default_factory=dict)
    keyless: str = BY_COUNT
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Empty in what earlier releases kept."""
    driver: int = 0
    """The driver whose epoch this is (views/mark.py)."""

    def sequence(self, partition: int) -> int:
        return self.sequences.get(partition, 0)

    def advanced(self, batch: int, written: Mapping[int, int]) -> "ProducerState":
        """After a batch of so many records per partition.

        >>> state = ProducerState("j", "t", 7, 0, 2, 1000, "none", sequences={0: SEQUENCES - 1})
        >>> state.advanced(3, {0: 2, 1: 5}).sequences
        {0: 1, 1: 5}
        """
        sequences = dict(self.sequences)
        for partition, records in written.items():
            sequences[partition] = (self.sequence(partition) + records) % SEQUENCES
        return replace(self, batch=batch, rounds=0, sequences=sequences)

    def of_driver(self, driver: int) -> "ProducerState":
        """Between two batches: with the next epoch of the producer, if the driver is a newer one than before.

        The log then refuses what the older driver sends to a partition, and a batch in the new epoch begins with
        sequence 0. Until then both send the same batch, which the log takes once.

        >>> state = ProducerState("j", "t", 7, 0, 2, 1000, "none", sequences={0: 9}).of_driver(3)
        >>> state.epoch, state.sequences, state.driver, state.of_driver(3) == state
        (1, {}, 3, True)
        """
        if driver == self.driver:
            return self
        return replace(self, driver=driver, epoch=self.epoch + 1, sequences={})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "ProducerState":
        numbers = {
            name: {int(partition): number for partition, number in content.get(name, {}).items()}
            for name in ("sequences", "offsets")
        }
        return cls(**{**content, **numbers})
