"""Rows to a webhook, at least once, with a key by which a repetition is known.

A batch goes in requests of at most so many rows, one after the other:

    {"id": "shop/orders/1#bills#12#0#8f1c…", "job": …, "batch": 12, "part": 0, "parts": 3, "rows": [{…}, …]}

The id is in webhook-id and idempotency-key too, and is the same whenever the same rows come: of the output, the batch,
the part, and a digest of the rows in it. Spark gives rows in any order, so they go in the order of their JSON text. A
target that fails is asked again for a while; then the job stops, with the batch unfinished, and sends it again when it
is started.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from headwater.clock import SystemClock
from headwater.errors import FlowError, StoreUnavailable
from headwater.views.json_text import json_text
from headwater.views.mark import Mark
from headwater.webhooks.backoff import pause_seconds
from headwater.webhooks.sending import DELIVERED, REFUSED, Sender
from headwater.webhooks.signing import signature_headers

DIGEST_LETTERS = 16


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
        stopping: threading.Event | None = None,
    ) -> None:
        """`stopping` is set when the job is asked to stop: then a target that fails is not asked again."""
        self.name = name
        self._sender, self._secret, self._rows_max, self._patience = sender, secret, rows_max, patience_seconds
        self._clock = SystemClock()
        self._random, self._stopping = Random(name), stopping or threading.Event()

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """The target sees what it gets."""

    def committed(self, job: str) -> int | None:
        return None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        for id, body in requests(mark, self.name, rows, self._rows_max):
            self._post(id, body)
        return True

    def close(self) -> None:
        """Each request has a connection of its own."""

    def _post(self, id: str, body: bytes) -> None:
        began_ms, attempt = self._clock.elapsed_ms(), 0
        while True:
            attempt += 1
            signed = signature_headers(self._secret, id, body, now_ms=self._clock.now_ms())
            answer = self._sender.post(body, {"content-type": "application/json", "idempotency-key": id, **signed})
            if answer.outcome == DELIVERED:
                return
            if answer.outcome == REFUSED:
                raise FlowError(
                    f"the webhook of {self.name} does not take {id}: {answer.said}",
                    "Look after its target; the same request is sent when the job is tried again.",
                )
            pause = pause_seconds(attempt, self._random, answer.retry_after_seconds)
            out_of_patience = self._clock.elapsed_ms() - began_ms + 1000 * pause > 1000 * self._patience
            if out_of_patience or self._stopping.wait(pause):
                raise StoreUnavailable(f"the webhook of {self.name}", f"{answer.said}, {attempt} times")


def requests(mark: Mark, output: str, rows: pa.Table, rows_max: int) -> Iterator[tuple[str, bytes]]:
    """Ids and bodies; none for a batch without rows."""
    parts = -(-rows.num_rows // rows_max)
    texts = _in_order(rows) if parts else []
    for part in range(parts):
        listed = ",".join(texts[part * rows_max : (part + 1) * rows_max])
        digest = hashlib.sha256(listed.encode()).hexdigest()[:DIGEST_LETTERS]
        id = f"{mark.job}#{output}#{mark.batch}#{part}#{digest}"
        head = json_text(pa.array([{"id": id, "job": mark.job, "batch": mark.batch, "part": part, "parts": parts}]))[
            0
        ].as_py()
        yield id, f'{head[:-1]},"rows":[{listed}]}}'.encode()


def _in_order(rows: pa.Table) -> list[str]:
    """Rows as JSON, in the one order that every run gives them."""
    texts = json_text(rows.to_struct_array().combine_chunks())
    ordered: list[str] = texts.take(pc.array_sort_indices(texts)).to_pylist()
    return ordered
