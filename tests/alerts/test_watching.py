"""Which keys meet the condition of an alert now."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from headwater.alerts import watching
from headwater.alerts.row_limits import CUT, ROW_BYTES_MAX
from headwater.alerts.watching import Watch
from headwater.errors import StoreUnavailable, UnknownView
from headwater.views.mark import Mark, StoredMark
from headwater.views.store import ViewStore, open_store
from tests.alerts.written_views import ALERT, APP, PLAIN, TEXTS, VIEW, WINDOWS, WrittenViews, minute


def looked(watch: Watch) -> list[str]:
    watch.look()
    return sorted(str(one.key["url"]) for one in watch.held.values())


@pytest.fixture
def views(tmp_path: Path) -> WrittenViews:
    return WrittenViews(tmp_path)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(open_store(tmp_path, APP, read_only=True), ALERT, VIEW)


def test_a_view_that_is_not_there_yet_says_so(watch: Watch) -> None:
    with pytest.raises(UnknownView):
        watch.look()


def test_all_rows_at_the_first_look_and_changes_at_the_next(views: WrittenViews, watch: Watch) -> None:
    views.write([{"url": "/a", "p99": 2.0}, {"url": "/b", "p99": 3.0}])
    assert looked(watch) == ["/a", "/b"]
    views.write([{"url": "/a", "_op": "d"}, {"url": "/c", "p99": 4.0}])
    assert looked(watch) == ["/b", "/c"]


def test_a_look_at_nothing_new_says_so(views: WrittenViews, watch: Watch) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    assert watch.look()
    assert not watch.look()


def test_values_are_those_of_now_and_as_json_has_them(views: WrittenViews, watch: Watch) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    watch.look()
    views.write([{"url": "/a", "p99": float("nan")}])
    watch.look()
    [held] = watch.held.values()
    assert (held.key, held.row) == ({"url": "/a"}, {"p99": "NaN"})


def test_a_view_that_was_rebuilt_is_read_again(views: WrittenViews, watch: Watch) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    looked(watch)
    views.store.begin_shadow(ALERT, PLAIN, ["url"], job="shop/1/rebuild")
    views.store.swap(ALERT, Mark("shop/1", 9, {}))
    assert looked(watch) == []


def test_more_keys_than_are_kept_are_said(views: WrittenViews, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "KEYS_MAX", 3)
    views.write([{"url": f"/{number}", "p99": 2.0} for number in range(5)])
    assert len(looked(watch)) == 3
    assert watch.more


def test_keys_beyond_those_that_are_kept_come_in_when_there_is_room(
    views: WrittenViews, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "KEYS_MAX", 3)
    views.write([{"url": url, "p99": 2.0} for url in ("/c", "/d", "/e")])
    assert looked(watch) == ["/c", "/d", "/e"]
    views.write([{"url": url, "p99": 2.0} for url in ("/a", "/b", "/f")])
    assert looked(watch) == ["/c", "/d", "/e"], "who is there already stays"
    views.write([{"url": "/d", "_op": "d"}])
    assert looked(watch) == ["/a", "/c", "/e"]
    assert watch.more
    views.write([{"url": url, "_op": "d"} for url in ("/a", "/c", "/e")])
    assert looked(watch) == ["/b", "/f"]
    assert not watch.more


@pytest.mark.parametrize("schema", [PLAIN, WINDOWS], ids=["plain", "windows"])
def test_what_is_under_way_goes_before_other_keys_when_all_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: pa.Schema
) -> None:
    monkeypatch.setattr(watching, "KEYS_MAX", 2)
    views = WrittenViews(tmp_path, schema)
    views.write([minute(0, url, p99=2.0) for url in ("/a", "/b", "/c", "/d")])
    known: list[dict[str, Any]] = [{"url": "/d"}, {"url": "/gone"}, {"other": 1}]
    again = Watch(open_store(tmp_path, APP, read_only=True), ALERT, VIEW, under_way=lambda: known)
    assert looked(again) == ["/a", "/d"]
    assert again.more


class Failing:
    """A store that answers, but does not come to the end of what it is asked for."""

    def __init__(self, store: ViewStore, method: str) -> None:
        self._store, self._method, self.broken = store, method, False

    def mark(self, view: str) -> StoredMark | None:
        return self._store.mark(view)

    @contextmanager
    def snapshot(self, view: str) -> Iterator[Any]:
        with self._store.snapshot(view) as snapshot:
            if self.broken:
                setattr(snapshot, self._method, self._fail)
            yield snapshot

    def _fail(self, *arguments: object) -> object:
        raise StoreUnavailable("sqlite:///views", "disk I/O error")


@pytest.mark.parametrize("method", ["select", "changes_after"])
def test_what_cannot_be_read_leaves_everything_as_it_was(views: WrittenViews, tmp_path: Path, method: str) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    store = Failing(open_store(tmp_path, APP, read_only=True), method)
    watch = Watch(cast(ViewStore, store), ALERT, VIEW)
    assert looked(watch) == ["/a"]
    before = watch.seen
    if method == "select":
        views.store.begin_shadow(ALERT, PLAIN, ["url"], job="shop/1/rebuild")
        views.store.swap(ALERT, Mark("shop/1", 9, {}))
        views.batch = 9
    views.write([{"url": "/a", "p99": 3.0}, {"url": "/b", "p99": 3.0}])
    store.broken = True
    with pytest.raises(StoreUnavailable):
        watch.look()
    assert (list(watch.held), watch.seen) == (['{"url":"/a"}'], before)
    store.broken = False
    assert looked(watch) == ["/a", "/b"]


def test_a_long_value_is_cut_and_a_key_that_is_too_long_is_said(views: WrittenViews, tmp_path: Path) -> None:
    written = WrittenViews(tmp_path / "texts", TEXTS)
    written.write([{"url": "/a", "page": "\u0001ä" * 1_000_000}, {"url": "/" * 70_000, "page": "b"}])
    watch = Watch(written.store, ALERT, VIEW)
    assert looked(watch) == ["/a"]
    [held] = watch.held.values()
    assert len(json.dumps(dict(held.row), ensure_ascii=False).encode()) <= ROW_BYTES_MAX
    assert held.row["page"].startswith("\u0001ä")
    assert held.row["page"].endswith(CUT)
    assert watch.too_long.startswith('{"url":"///')


def test_deleted_keys_are_notified_though_they_were_never_seen(views: WrittenViews, watch: Watch) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    assert looked(watch) == ["/a"]
    views.write([{"url": "/b", "p99": 2.0}])
    views.write([{"url": "/b", "_op": "d"}, {"url": "/a", "_op": "d"}])
    views.write([{"url": "/a", "p99": 3.0}])
    assert looked(watch) == ["/a"]
    assert [key["url"] for key in watch.passed.values()] == ["/b", "/a"]
    watch.look()
    assert watch.passed == {}


def test_keys_deleted_while_no_evaluation_ran_are_found_from_the_last_position(
    views: WrittenViews, watch: Watch, tmp_path: Path
) -> None:
    views.write([{"url": "/old", "p99": 2.0}])
    views.write([{"url": "/old", "_op": "d"}])
    looked(watch)
    assert watch.passed == {}, "what was before the alert is not notified"
    views.write([{"url": "/a", "p99": 2.0}, {"url": "/b", "p99": 2.0}])
    views.write([{"url": "/a", "_op": "d"}])
    again = Watch(open_store(tmp_path, APP, read_only=True), ALERT, VIEW, since=watch.seen)
    assert looked(again) == ["/b"]
    assert [key["url"] for key in again.passed.values()] == ["/a"]


def test_of_a_rebuilt_view_nothing_has_passed(views: WrittenViews, watch: Watch) -> None:
    views.write([{"url": "/a", "p99": 2.0}])
    looked(watch)
    views.store.begin_shadow(ALERT, PLAIN, ["url"], job="shop/1/rebuild")
    views.store.swap(ALERT, Mark("shop/1", 9, {}))
    views.batch = 9
    views.write([{"url": "/b", "_op": "d"}])
    looked(watch)
    assert watch.passed == {}


class TestWindows:
    @pytest.fixture
    def views(self, tmp_path: Path) -> WrittenViews:
        return WrittenViews(tmp_path, WINDOWS)

    def test_the_window_is_not_in_the_key(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(0)])
        watch.look()
        [held] = watch.held.values()
        assert held.key == {"url": "/"}
        assert held.row["window_start"] == "2026-03-01T12:00:00+00:00"

    def test_it_continues_from_window_to_window(self, views: WrittenViews, watch: Watch) -> None:
        for number in range(3):
            views.write([minute(number, errors=10 + number)])
            assert looked(watch) == ["/"]
        [held] = watch.held.values()
        assert held.row["errors"] == 12

    def test_the_newest_window_of_a_key_counts(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(0)])
        views.write([], others=[minute(1, errors=0)])
        assert looked(watch) == []

    def test_a_window_that_is_corrected_no_longer_holds(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(0)])
        assert looked(watch) == ["/"]
        views.write([minute(0, errors=1, _op="d")])
        assert looked(watch) == []

    def test_a_key_without_events_is_past_when_time_has_advanced(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(0, "/a")])
        views.write([], others=[minute(1, "/b", errors=0)])
        assert looked(watch) == ["/a"], "its next window may still come"
        views.write([], others=[minute(2, "/b", errors=0)])
        assert looked(watch) == []

    def test_windows_that_are_merged_are_one(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(0)])
        looked(watch)
        longer = {**minute(0), "window_end": minute(3)["window_end"]}
        views.write([longer, minute(0, _op="d")])
        assert looked(watch) == ["/"]

    def test_a_view_that_is_a_batch_ahead_of_the_alerts_is_not_compared(
        self, views: WrittenViews, watch: Watch
    ) -> None:
        views.write([minute(0)])
        looked(watch)
        views.begin([minute(1)])
        assert looked(watch) == ["/"], "the same window is on its way to the alert's view"
        views.finish([minute(1)])
        assert looked(watch) == ["/"]

    def test_of_windows_long_past_nothing_is_kept(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(number) for number in range(100)])
        looked(watch)
        assert len(watch._newest) == 1

    def test_windows_long_past_do_not_keep_the_newest_from_being_seen(
        self, views: WrittenViews, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "KEYS_MAX", 5)
        views.write([minute(number, f"/{number}") for number in range(20)])
        views.write([minute(19, url) for url in ("/y", "/z")])
        assert looked(watch) == ["/18", "/19", "/y", "/z"]
        assert not watch.more

    def test_a_view_of_many_windows_of_few_keys_is_read_to_its_end(
        self, views: WrittenViews, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "KEYS_MAX", 5)
        long = {"window_end": minute(60)["window_end"]}
        views.write([{**minute(number, f"/{number % 3}" if number else "/first"), **long} for number in range(20)])
        assert looked(watch) == ["/0", "/1", "/2", "/first"]
        assert [held.row["window_start"][14:16] for held in watch.held.values()] == ["19", "18", "17", "00"]
        assert not watch.more

    def test_a_window_that_came_and_went_has_passed(self, views: WrittenViews, watch: Watch) -> None:
        looked(watch)
        views.write([minute(0)])
        views.write([minute(0, errors=1, _op="d")])
        assert looked(watch) == []
        assert [key["url"] for key in watch.passed.values()] == ["/"]

    @pytest.mark.parametrize("newer", [minute(1, errors=0), minute(5, "/other", errors=0)], ids=["of it", "of all"])
    def test_a_window_that_came_late_and_went_has_not(
        self, views: WrittenViews, watch: Watch, newer: dict[str, object]
    ) -> None:
        views.write([], others=[newer])
        looked(watch)
        views.write([minute(0)])
        views.write([minute(0, errors=1, _op="d")])
        looked(watch)
        assert watch.passed == {}

    def test_windows_that_are_merged_have_not_passed(self, views: WrittenViews, watch: Watch) -> None:
        views.write([minute(0)])
        looked(watch)
        longer = {**minute(0), "window_end": minute(3)["window_end"]}
        views.write([longer, minute(0, _op="d")])
        views.write([{**longer, "errors": 10}])
        looked(watch)
        assert watch.passed == {}
