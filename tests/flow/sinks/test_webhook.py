"""Rows to somebody's webhook: at least once, and a repetition can be told."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.capture.http.signatures import delivery_of
from headwater.clock import SystemClock
from headwater.errors import JobRefused, StoreUnavailable
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


def test_a_batch_goes_in_parts_and_comes_again_under_the_same_ids() -> None:
    with webhook_target() as target:
        for _ in range(2):
            assert sink(target).write(mark(4), ROWS)
    assert target.ids() == [f"shop/main/1#4#{part}" for part in (0, 1, 2)] * 2
    bodies = [json.loads(one.body, parse_float=Decimal) for one in target.taken[:3]]
    assert [row["n"] for body in bodies for row in body["rows"]] == [0, 1, 2, 3, 4]
    assert bodies[0]["rows"][0]["amount"] == Decimal("1.50")
    assert (bodies[2]["batch"], bodies[2]["part"], bodies[2]["parts"]) == (4, 2, 3)


def test_it_says_that_it_may_repeat_itself_and_signs() -> None:
    with webhook_target() as target:
        made = sink(target)
        made.write(mark(0), ROWS.slice(0, 1))
    [taken] = target.taken
    now_ms = SystemClock().now_ms()
    assert delivery_of("standard", ["s3cret"], taken.headers, taken.body, now_ms=now_ms) == "shop/main/1#0#0"
    assert not made.exactly_once
    assert made.committed("shop/main/1") is None


def test_a_batch_without_rows_is_told_to_nobody() -> None:
    with webhook_target() as target:
        assert sink(target).write(mark(0), ROWS.slice(0, 0))
    assert target.taken == []


def test_a_target_that_fails_for_a_while_is_asked_again() -> None:
    with webhook_target(500, 503, 200) as target:
        assert sink(target).write(mark(0), ROWS.slice(0, 1))
    assert target.ids() == ["shop/main/1#0#0"] * 3


def test_a_target_that_goes_on_failing_stops_the_job() -> None:
    with webhook_target(500) as target, pytest.raises(StoreUnavailable, match="500"):
        sink(target, patience_seconds=0.2).write(mark(0), ROWS)


def test_a_target_that_never_takes_it_stops_the_job_at_once() -> None:
    with webhook_target(400) as target, pytest.raises(JobRefused, match="400"):
        sink(target).write(mark(0), ROWS)
    assert len(target.taken) == 1
