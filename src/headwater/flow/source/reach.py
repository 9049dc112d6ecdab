"""Where the log is, and a client that finds it again after it has moved."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headwater.clock import Clock, SystemClock
from headwater.errors import UnavailableError
from headwater.flow.kafka.client import Client
from headwater.flow.source.record_batches.records import COLUMN_BYTES_MAX, UNPACKED_BYTES_MAX
from headwater.settings import NODE_FILE

Result = TypeVar("Result")

PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.2


def address_of_node(data: Path) -> str:
    """Where the node on a data directory can be reached, as it says itself."""
    try:
        said = json.loads((data / NODE_FILE).read_text(encoding="utf-8"))
        return str(said["kafka"])
    except (OSError, ValueError, KeyError, TypeError):
        error = UnavailableError(f"no node runs on the data directory {data}")
        error.hint = f'Start one with "headwater start --data {data}".'
        raise error from None


def unpacked_bytes_max(data: Path | None) -> int:
    """How large a batch may be once it is unpacked, as the node on a data directory says; where no node is known, or
    it is an older one, as nodes have it by default."""
    if data is None:
        return UNPACKED_BYTES_MAX
    try:
        said = json.loads((data / NODE_FILE).read_text(encoding="utf-8"))
        return min(int(said["decompressed_bytes_max"]), COLUMN_BYTES_MAX)
    except (OSError, ValueError, KeyError, TypeError):
        return UNPACKED_BYTES_MAX


class Reach:
    """A client that is made when it is needed. A node that was restarted may answer at another port."""

    def __init__(
        self,
        address: str | None,
        data: Path | None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Clock | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        self._address, self._data = address, data
        self._patience_ms = round(1000 * patience_seconds)
        self._clock = clock or SystemClock()
        self._stopping = stopping or threading.Event()
        self._client: Client | None = None
        self._connected_to = ""

    def ask(self, action: Callable[[Client], Result]) -> Result:
        """Do something with the client; again, while the log is away but may come back, unless stopped."""
        deadline = self._clock.elapsed_ms() + self._patience_ms
        while True:
            try:
                return action(self._connected())
            except UnavailableError:
                self.close()
                if self._clock.elapsed_ms() >= deadline or self._stopping.wait(PAUSE_SECONDS):
                    raise

    def _connected(self) -> Client:
        address = self._address
        if address is None:
            assert self._data is not None, "either the address or the data directory is known"
            address = address_of_node(self._data)
        if self._client is None or self._connected_to != address:
            self.close()
            self._client, self._connected_to = Client(address), address
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
