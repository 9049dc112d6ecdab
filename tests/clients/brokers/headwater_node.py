"""headwater, as a user starts it: the command `headwater start`, on loopback, in a folder of its own."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.clients.brokers.process import BrokerProcess, launch, read_address, wait_until_answering


def start_headwater(folder: Path, options: Sequence[str] = ()) -> BrokerProcess:
    """Start a node on a free port; on a folder that was used before it continues with its data."""
    folder.mkdir(parents=True, exist_ok=True)
    data, log_path = folder / "data", folder / "broker.log"
    said_before = log_path.stat().st_size if log_path.exists() else 0
    command = [
        sys.executable,
        "-u",
        "-m",
        "headwater",
        "start",
        "--data",
        str(data),
        "--kafka",
        "127.0.0.1:0",
        "--http",
        "off",
        "--consumer-session-timeout",
        "15s",
        "--consumer-heartbeat-interval",
        "300ms",
        *options,
    ]
    process = launch(command, log_path)
    address = read_address(process, log_path, said_before=said_before, patience_seconds=60)
    wait_until_answering(address, process, log_path, patience_seconds=20)
    return BrokerProcess("headwater", address, process, log_path, data)
