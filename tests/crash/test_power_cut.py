"""A power cut on a real file system: what the disk image holds at that moment is all there is afterwards.

The node's data lie in an ext4 image. The cut is a copy of the image, taken while the node is stopped in the middle of
its work.
"""

import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from headwater.log import Log
from tests.clients.brokers.headwater_node import start_headwater
from tests.crash.disk_image import made_image, mounted

CUTS = int(os.environ.get("HEADWATER_POWER_CUTS", "3"))
IMAGE_BYTES = 48 * 1024**2
BURST = 40
UNDER_WAY_MAX = 2000


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return made_image(tmp_path / "disk.img", size=IMAGE_BYTES)


@pytest.mark.parametrize("seed", range(CUTS))
def test_whatever_was_acknowledged_survives_a_power_cut(seed: int, image: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    cut = tmp_path / "cut.img"
    with mounted(image, tmp_path / "disk") as disk:
        broker = start_headwater(disk / "node")
        try:
            acked = load_until_a_random_moment(broker.address, rng)
            os.kill(broker.process.pid, signal.SIGSTOP)
            shutil.copyfile(image, cut)
        finally:
            broker.process.kill()
            broker.process.wait()
    with mounted(cut, tmp_path / "after") as disk, Log.open(disk / "node" / "data") as log:
        found = {record.offset: record.value for record in log.read("t")}
        assert {offset: found.get(offset) for offset in acked} == acked
        position = log.append("t", [*log.read("t", limit=1)])
        assert position.offset > max(acked), "the log continues after everything that was acknowledged"


def load_until_a_random_moment(address: str, rng: random.Random) -> dict[int, bytes]:
    """Send until a random number of answers has come; answers what was acknowledged by then, by offset."""
    acked: dict[int, bytes] = {}

    def note(error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and value is not None:
            acked[offset] = value

    producer = Producer({"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, "linger.ms": 1})
    enough = rng.randrange(200, 4000)
    while len(acked) < enough:
        for _ in range(BURST if len(producer) < UNDER_WAY_MAX else 0):
            producer.produce("t", rng.randbytes(rng.randrange(1, 2000)), on_delivery=note)
        producer.poll(rng.choice([0, 0.001, 0.01]))
    return dict(acked)
