"""Alerts of an app, from the view to the journal; time is held still."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.alerts.definition import Alert, AppAlerts, Definitions, alerts_topic
from headwater.alerts.episodes import BRIEF, Rule
from headwater.alerts.evaluation import NO_LONGER, Evaluation, alert_reports
from headwater.alerts.journal import events
from headwater.alerts.notify import topic, webhook
from headwater.clock import ManualClock
from headwater.errors import DamagedFile, StoreUnavailable
from headwater.log.log import Log
from headwater.record import Record
from headwater.views.mark import Mark
from headwater.views.tables import SqlSnapshot
from tests.alerts.written_views import ALERT, APP, PLAIN, TEXTS, VIEW, WrittenViews

TARGETS = (webhook("https://hooks.example/s3cret-path", secret="s3cret"), topic("on-call"))


def alerts(hold_ms: int = 0, repeat_ms: int | None = None) -> AppAlerts:
    return AppAlerts(APP, (Alert(ALERT, VIEW, Rule(hold_ms, repeat_ms), TARGETS, "pages that are slow"),))


class Lived:
    """A node's part that can be killed: whatever it did not write down is lost."""

    def __init__(self, data: Path, log: Log, clock: ManualClock) -> None:
        self.data, self.log, self.clock = data, log, clock
        self.evaluation: Evaluation | None = None

    def begin(self, said: AppAlerts) -> None:
        Definitions(self.data).save(said)
        if self.evaluation is not None:
            self.evaluation.close()
        self.evaluation = Evaluation(said, self.data, self.log, self.clock)

    def look(self, *, later_ms: int = 0) -> None:
        self.clock.advance(later_ms)
        assert self.evaluation is not None
        self.evaluation.look()

    def emitted(self) -> list[tuple[str, str]]:
        events = [json.loads(record.value or b"") for record in self.log.read(alerts_topic(APP))]
        return [(one["state"], one["key"]["url"]) for one in events]

    def ids(self) -> list[str]:
        return [json.loads(record.value or b"")["id"] for record in self.log.read(alerts_topic(APP))]


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    with Log.open(tmp_path) as log:
        lived = Lived(tmp_path, log, ManualClock())
        yield lived
        if lived.evaluation is not None:
            lived.evaluation.close()


@pytest.fixture
def views(tmp_path: Path) -> WrittenViews:
    return WrittenViews(tmp_path)


def test_an_alert_is_raised_repeated_and_resolved(lived: Lived, views: WrittenViews) -> None:
    lived.begin(alerts(hold_ms=120_000, repeat_ms=3_600_000))
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    lived.look(later_ms=120_000)
    lived.look(later_ms=3_600_000)
    views.write([{"url": "/a", "_op": "d"}])
    lived.look(later_ms=1000)
    assert lived.emitted() == [("pending", "/a"), ("raised", "/a"), ("repeated", "/a"), ("resolved", "/a")]
    assert len(set(lived.ids())) == 4


def test_what_held_before_an_alert_was_declared_is_notified_too(lived: Lived, views: WrittenViews) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    lived.begin(alerts())
    lived.look()
    assert lived.emitted() == [("raised", "/a")]


@pytest.mark.parametrize("file_lost", [False, True], ids=["with its file", "with the topic alone"])
def test_after_a_kill_nothing_is_lost_and_nothing_notified_twice(
    lived: Lived, views: WrittenViews, file_lost: bool, tmp_path: Path
) -> None:
    lived.begin(alerts(hold_ms=60_000))
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    for _ in range(3):
        if file_lost:
            (tmp_path / "alerts" / APP / "state.json").unlink()
        lived.begin(alerts(hold_ms=60_000))
        lived.look(later_ms=30_000)
    views.write([{"url": "/a", "_op": "d"}, {"url": "/b", "p99": 3.0}])
    lived.begin(alerts(hold_ms=60_000))
    lived.look()
    assert lived.emitted() == [("pending", "/a"), ("raised", "/a"), ("pending", "/b"), ("resolved", "/a")]


def test_a_file_older_than_the_topic_is_caught_up_with(lived: Lived, views: WrittenViews, tmp_path: Path) -> None:
    state = tmp_path / "alerts" / APP / "state.json"
    lived.begin(alerts())
    lived.look()
    old = state.read_bytes()
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    state.write_bytes(old)
    lived.begin(alerts())
    lived.look(later_ms=1000)
    assert lived.emitted() == [("raised", "/a")]


def test_what_ended_while_no_evaluation_ran_is_resolved(lived: Lived, views: WrittenViews) -> None:
    lived.begin(alerts())
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    views.write([{"url": "/a", "_op": "d"}])
    lived.begin(alerts())
    lived.look(later_ms=1000)
    assert lived.emitted() == [("raised", "/a"), ("resolved", "/a")]


def test_what_came_and_went_between_two_looks_is_raised_and_resolved(lived: Lived, views: WrittenViews) -> None:
    lived.begin(alerts())
    lived.look()
    views.write([{"url": "/a", "p99": 2.0}])
    views.write([{"url": "/a", "_op": "d"}])
    lived.look(later_ms=200)
    lived.look(later_ms=200)
    assert lived.emitted() == [("raised", "/a"), ("resolved", "/a")]
    first, *_ = lived.log.read(alerts_topic(APP))
    assert json.loads(first.value or b"")["text"] == f"too_slow raised: url=/a ({BRIEF})"


@pytest.mark.parametrize("file_lost", [False, True], ids=["with its file", "with the topic alone"])
def test_what_came_and_went_while_a_node_was_down_is_notified_once_however_often_it_is_killed(
    lived: Lived, views: WrittenViews, file_lost: bool, tmp_path: Path
) -> None:
    lived.begin(alerts())
    views.write([{"url": "/before", "p99": 2.0}])
    lived.look()
    kept = (tmp_path / "alerts" / APP / "state.json").read_bytes()
    views.write([{"url": "/a", "p99": 2.0}])
    views.write([{"url": "/a", "_op": "d"}])
    for _ in range(3):
        lived.begin(alerts())
        lived.look(later_ms=1000)
        # Killed before the file was written, or without it.
        (tmp_path / "alerts" / APP / "state.json").write_bytes(b"{}" if file_lost else kept)
    assert lived.emitted() == [("raised", "/before"), ("raised", "/a"), ("resolved", "/a")]


def test_a_view_that_cannot_be_read_resolves_nothing_and_raises_nothing(
    lived: Lived, views: WrittenViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise StoreUnavailable("sqlite:///views", "disk I/O error")

    lived.begin(alerts(hold_ms=60_000))
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    with monkeypatch.context() as broken:
        broken.setattr(SqlSnapshot, "select", fails)
        views.store.begin_shadow(ALERT, PLAIN, ["url"], job="shop/1/rebuild")
        views.store.swap(ALERT, Mark("shop/1", 9, {}))
        views.batch = 9
        views.write([{"url": "/a", "p99": 2.0}])
        lived.look(later_ms=90_000)
        assert "disk I/O error" in alert_reports(lived.data)[0]["said"]
        assert lived.emitted() == [("pending", "/a")], "it is unknown whether it still holds"
    lived.look(later_ms=1000)
    assert lived.emitted() == [("pending", "/a"), ("raised", "/a")]
    assert alert_reports(lived.data)[0]["said"] == ""


FOREIGN = [
    b"hello", b"\xff", b"[1]", b"null", b"{}", b'{"alert": "too_slow", "state": "raised"}', b"[" * 100_000,
    b'{"app": "shop", "alert": "too_slow", "state": "odd", "episode": "e", "id": "e-1", "key": {}, "row": {}, '
    b'"since_ms": 1, "at_ms": 1, "raised_ms": 1, "number": 1, "why": "", "text": ""}',
    b'{"app": "other", "alert": "too_slow", "state": "raised", "episode": "e", "id": "e-1", "key": {}, "row": {}, '
    b'"since_ms": 1, "at_ms": 1, "raised_ms": 1, "number": 1, "why": "", "text": ""}',
    b'{"app": "shop", "alert": "too_slow", "state": "raised", "episode": "e", "id": "e-1", "key": {}, "row": {}, '
    b'"since_ms": "1", "at_ms": 1, "raised_ms": 1, "number": 1, "why": "", "text": ""}',
    b'{"app": "shop", "alert": "too_slow", "state": "raised", "episode": "e", "id": "e-1", "key": {}, "row": {}, '
    b'"since_ms": 1, "at_ms": 1, "raised_ms": 1, "number": 1, "why": "", "text": "", "seen": 7}',
]  # fmt: skip


def test_what_others_write_into_the_topic_of_alerts_is_passed_over(lived: Lived, views: WrittenViews) -> None:
    lived.begin(alerts())
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    lived.log.append(alerts_topic(APP), [Record(value) for value in [*FOREIGN, None]])
    lived.begin(alerts())
    lived.look(later_ms=1000)
    views.write([{"url": "/a", "_op": "d"}])
    lived.look(later_ms=1000)
    ours = [one for _, one in events(lived.log, APP, offset=0) if one is not None]
    assert [(one["state"], one["key"]["url"]) for one in ours] == [("raised", "/a"), ("resolved", "/a")]


def test_a_row_larger_than_a_record_is_cut(lived: Lived, tmp_path: Path) -> None:
    views = WrittenViews(tmp_path, TEXTS)
    lived.begin(alerts())
    views.write([{"url": "/a", "page": "p" * 2_000_000}, {"url": "/b", "page": "short"}])
    lived.look()
    assert lived.emitted() == [("raised", "/a"), ("raised", "/b")]


def test_an_alert_that_is_no_longer_declared_comes_to_its_end(lived: Lived, views: WrittenViews) -> None:
    lived.begin(alerts())
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    lived.begin(AppAlerts(APP, ()))
    lived.look()
    assert lived.emitted() == [("raised", "/a"), ("resolved", "/a")]
    *_, last = lived.log.read(alerts_topic(APP))
    assert json.loads(last.value or b"")["why"] == NO_LONGER


def test_reports_of_alerts_show_their_state_and_no_secret(lived: Lived, views: WrittenViews) -> None:
    lived.begin(alerts())
    views.write([{"url": "/a", "p99": 2.0}])
    lived.look()
    [report] = alert_reports(lived.data)
    assert (report["name"], report["state"], report["raised"]) == ("shop.too_slow", "raised", 1)
    assert report["keys"][0]["key"] == {"url": "/a"}
    assert "s3cret" not in json.dumps(report)
    assert "s3cret" not in (lived.data / "alerts" / APP / "state.json").read_text()


def test_an_alert_whose_view_is_not_there_yet_says_so_and_waits(lived: Lived) -> None:
    lived.begin(alerts())
    lived.look()
    [report] = alert_reports(lived.data)
    assert "run the app" in report["said"]
    assert lived.emitted() == []


def test_definitions_are_for_their_owner_alone(lived: Lived) -> None:
    lived.begin(alerts())
    file = lived.data / "alerts" / APP / "definition.json"
    assert file.stat().st_mode & 0o077 == 0
    assert Definitions(lived.data).get(APP) == alerts()


def test_what_an_app_no_longer_declares_is_kept_until_it_has_come_to_its_end(tmp_path: Path) -> None:
    definitions, before = Definitions(tmp_path), alerts()
    definitions.declare(before)
    assert definitions.get(APP) == before
    definitions.declare(AppAlerts(APP, ()))
    definitions.declare(AppAlerts(APP, ()))
    left = AppAlerts(APP, (), before.alerts)
    assert definitions.get(APP) == left
    assert left.targets().keys() == before.targets().keys()
    definitions.declare(before)
    assert not definitions.forget(left), "it is declared again"
    definitions.declare(AppAlerts(APP, ()))
    assert definitions.forget(left)
    assert definitions.apps() == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"shop"', b'{"app": "shop"}', b'{"app": "shop", "alerts": [{"targets": ["x"]}]}']
)
def test_a_definition_that_cannot_be_read_is_named_and_rewritten(tmp_path: Path, content: bytes) -> None:
    definitions = Definitions(tmp_path)
    definitions.declare(alerts())
    file = tmp_path / "alerts" / APP / "definition.json"
    file.write_bytes(content)
    file.with_suffix(".copy").unlink()
    with pytest.raises(DamagedFile, match=r"definition\.json cannot be read"):
        definitions.get(APP)
    assert alert_reports(tmp_path) == []
    assert not definitions.forget(AppAlerts(APP, ()))
    definitions.declare(alerts())
    assert definitions.get(APP) == alerts()
