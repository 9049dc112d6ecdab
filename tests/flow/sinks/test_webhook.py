"""Rows to somebody's webhook: at least once, and a repetition can be told."""

import json
import re
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.capture.http.signatures import delivery_of
from headwater.clock import SystemClock
from headwater.errors import FlowError, StoreUnavailable
from headwater.flow.sinks import webhook
from headwater.flow.sinks.webhook import WebhookSink
from headwater.webhooks.sending import Sender
from tests.contracts.sink import mark
from tests.webhooks.target import WebhookTarget, webhook_target

ROWS = pa.table({"n": list(range(5)), "amount": [Decimal("1.50")] * 5})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "pause_seconds", lambda attempt, random, asked=None: 0.05)


def sink(target: WebhookTarget, patience_seconds: float = 5.0) -> WebhookSink:
    sender = Sender(target.url, 2, allow_private=True)
    return WebhookSink(sender, name="bills", secret="s3cret", rows_max=2, patience_seconds=patience_seconds)


def test_a_batch_goes_in_parts_and_comes_again_under_the_same_ids_whatever_the_order_of_its_rows() -> None:
    with webhook_target() as target:
        for order in ([0, 1, 2, 3, 4], [3, 0, 4, 2, 1]):
            assert sink(target).write(mark(4), ROWS.take(order))
    assert [re.sub("#[0-9a-f]{16}$", "", id) for id in target.ids()[:3]] == [
        f"shop/main/1#bills#4#{part}" for part in (0, 1, 2)
    ]
    assert target.ids()[:3] == target.ids()[3:]
    assert [one.body for one in target.taken[:3]] == [one.body for one in target.taken[3:]]
    bodies = [json.loads(one.body, parse_float=Decimal) for one in target.taken[:3]]
    assert [row["n"] for body in bodies for row in body["rows"]] == [0, 1, 2, 3, 4]
    assert bodies[0]["rows"][0]["amount"] == Decimal("1.50")
    assert (bodies[2]["batch"], bodies[2]["part"], bodies[2]["parts"]) == (4, 2, 3)


def test_other_rows_have_another_id_also_in_the_same_part_of_the_same_batch() -> None:
    """A receiver that drops what it knows would lose them."""
    cut = {id for rows_max in (2, 3) for id, _ in webhook.requests(mark(4), "bills", ROWS, rows_max)}
    assert len(cut) == 5
    others = {id for id, _ in webhook.requests(mark(4), "copies", ROWS, 2)}
    assert not cut & others


def test_it_says_that_it_may_repeat_itself_and_signs() -> None:
    with webhook_target() as target:
        made = sink(target)
        made.write(mark(0), ROWS.slice(0, 1))
    [taken] = target.taken
    now_ms = SystemClock().now_ms()
    assert delivery_of("standard", ["s3cret"], taken.headers, taken.body, now_ms=now_ms) == taken.headers["webhook-id"]
    assert not made.exactly_once
    assert made.committed("shop/main/1") is None


def test_a_batch_without_rows_is_told_to_nobody() -> None:
    with webhook_target() as target:
        assert sink(target).write(mark(0), ROWS.slice(0, 0))
    assert target.taken == []


def test_a_target_that_fails_for_a_while_is_asked_again() -> None:
    with webhook_target(500, 503, 200) as target:
        assert sink(target).write(mark(0), ROWS.slice(0, 1))
    assert len(target.ids()) == 3
    assert len(set(target.ids())) == 1


def test_a_target_that_goes_on_failing_stops_the_job() -> None:
    with webhook_target(500) as target, pytest.raises(StoreUnavailable, match="500"):
        sink(target, patience_seconds=0.2).write(mark(0), ROWS)


def test_a_target_that_never_takes_it_stops_the_job_at_once() -> None:
    with webhook_target(400) as target, pytest.raises(FlowError, match="400"):
        sink(target).write(mark(0), ROWS)
    assert len(target.taken) == 1


def test_a_job_that_is_stopped_does_not_wait_for_a_target_that_fails() -> None:
    stopping = threading.Event()
    stopping.set()
    with webhook_target(500) as target:
        stopped = WebhookSink(Sender(target.url, 2, allow_private=True), name="bills", stopping=stopping)
        with pytest.raises(StoreUnavailable, match="500"):
            stopped.write(mark(0), ROWS)
    assert len(target.taken) == 1
