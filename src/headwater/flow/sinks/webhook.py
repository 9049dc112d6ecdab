"""Rows to somebody's webhook, at least once, with a key by which a repetition is known.

A batch goes in requests of at most so many rows, one after the other:

    {"id": "shop/orders/1#12#0", "job": …, "batch": 12, "part": 0, "parts": 3, "rows": [{…}, …]}

The id is in webhook-id and idempotency-key too, and is the same whenever the batch comes. A target that fails is asked
again for a while; then the job stops, with the batch unfinished, and sends it again when it is started.
"""

import threading
from collections.abc import Iterator, Sequence
from random import Random

import pyarrow as pa

from headwater.clock import Clock, SystemClock
from headwater.errors import JobRefused, StoreUnavailable
from headwater.views.json_text import json_text
from headwater.views.mark import Mark
from headwater.webhooks.backoff import pause_seconds
from headwater.webhooks.sending import DELIVERED, REFUSED, Sender
from headwater.webhooks.signing import signature_headers


class WebhookSink:
    exactly_once = False

    def __init__(
        self,
        sender: Sender,
        *,
        name: str,
        secret: str = "",
        rows_max: int = 500,
        patience_seconds: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._sender, self._secret, self._rows_max, self._patience = sender, secret, rows_max, patience_seconds
        self._clock = clock or SystemClock()
        self._random, self._pause = Random(name), threading.Event()

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """The target sees what it gets."""

    def committed(self, job: str) -> int | None:
        return None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        for id, body in requests(mark, rows, self._rows_max):
            self._post(id, body)
        return True

    def close(self) -> None:
        self._pause.set()

    def _post(self, id: str, body: bytes) -> None:
        began_ms, attempt = self._clock.elapsed_ms(), 0
        while True:
            attempt += 1
            signed = signature_headers(self._secret, id, body, now_ms=self._clock.now_ms())
            answer = self._sender.post(body, {"content-type": "application/json", "idempotency-key": id, **signed})
            if answer.outcome == DELIVERED:
                return
            if answer.outcome == REFUSED:
                raise JobRefused(f"the webhook of {self.name} does not take {id}: {answer.said}")
            pause = pause_seconds(attempt, self._random, answer.retry_after_seconds)
            if self._clock.elapsed_ms() - began_ms + 1000 * pause > 1000 * self._patience:
                raise StoreUnavailable(f"the webhook of {self.name}", f"{answer.said}, {attempt} times")
            self._pause.wait(pause)


def requests(mark: Mark, rows: pa.Table, rows_max: int) -> Iterator[tuple[str, bytes]]:
    """Ids and bodies; none for a batch without rows."""
    parts = -(-rows.num_rows // rows_max)
    for part in range(parts):
        id = f"{mark.job}#{mark.batch}#{part}"
        some = rows.slice(part * rows_max, rows_max).to_struct_array().combine_chunks()
        listed = ",".join(json_text(some).to_pylist())
        head = json_text(pa.array([{"id": id, "job": mark.job, "batch": mark.batch, "part": part, "parts": parts}]))[
            0
        ].as_py()
        yield id, f'{head[:-1]},"rows":[{listed}]}}'.encode()
