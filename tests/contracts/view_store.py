"""What flows and readers rely on from a store of views. Subclass, give a `where` fixture, done.

`where` is a place that nobody has used: a folder or a URL.
"""

import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import InvalidQuery, JobRefused, UnknownView, UnstorableValue, ViewBehind
from headwater.record import Position
from headwater.views.mark import Mark
from headwater.views.query import Query, parse_query
from headwater.views.store import ViewStore, open_store
from headwater.views.tables import DELETES, SqlStore
from headwater.views.view import Change, View
from tests.views import rows as samples
from tests.waiting import LONG

Where = str | Path

JOB = "shop/main/1"
SCHEMA = pa.schema([("country", pa.string()), ("amount", pa.decimal128(12, 2)), ("orders", pa.int64())])


def changed(*rows: tuple[str, str | None, str | None, int | None]) -> pa.Table:
    """Rows of op, country, amount, orders."""
    ops, countries, amounts, orders = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [pa.array(countries, pa.string()), pa.array(amounts, pa.string()).cast(pa.decimal128(12, 2)),
               pa.array(orders, pa.int64())]  # fmt: skip
    return pa.Table.from_arrays([pa.array(ops, pa.string()), *columns], names=["_op", *SCHEMA.names])


def mark(batch: int, offset: int | None = None, job: str = JOB) -> Mark:
    return Mark(job, batch, {"orders": {0: batch + 1 if offset is None else offset}})


class ViewStoreContract:
    @pytest.fixture
    def store(self, where: Where) -> Iterator[ViewStore]:
        store = open_store(where, "shop")
        store.prepare("revenue", SCHEMA, ["country"])
        yield store
        store.close()

    @pytest.fixture
    def view(self, where: Where, store: ViewStore) -> Iterator[View]:
        with View.open(where, "shop", "revenue") as view:
            yield view

    # Several views, and columns of many rows

    def test_views_of_one_transaction_are_seen_at_the_same_batch(self, where: Where, store: ViewStore) -> None:
        store.prepare("counts", SCHEMA, ["country"])
        before, torn = open_store(where, "shop", read_only=True), []
        stopping = threading.Event()

        def write() -> None:
            for batch in range(60):
                with store.in_one_transaction():
                    for view in ("revenue", "counts"):
                        store.write(view, mark(batch), changed(("c", "DE", "1.00", batch)))
            stopping.set()

        writer = threading.Thread(target=write)
        writer.start()
        while not stopping.is_set():
            with before.snapshots(["counts", "revenue"]) as both:
                seen = [(one.mark.batch, [row["orders"] for row in one.select(Query())]) for one in both]
            torn += [seen] if seen[0] != seen[1] else []
        writer.join()
        before.close()
        assert torn == []

    def test_a_scan_gives_the_columns_that_were_asked_for_as_arrow(self, store: ViewStore, where: Where) -> None:
        store.prepare("samples", samples.SCHEMA, ["id"])
        store.write("samples", mark(0), samples.table(samples.ALL))
        names = samples.SCHEMA.names[::-1]
        reader = open_store(where, "shop", read_only=True)
        with reader.snapshot("samples") as snapshot:
            found = pa.Table.from_batches(list(snapshot.scan(names, Query())))
        reader.close()
        assert found.schema.names == names
        written = samples.table(samples.ALL).select(names)
        assert found.schema.types == written.schema.types
        assert samples.shown(by_id(found)) == samples.shown(by_id(written))

    def test_a_scan_reads_only_rows_that_fit(self, store: ViewStore) -> None:
        store.write("revenue", mark(0), changed(*(("c", f"{n:05}", "1.00", n) for n in range(50))))
        with store.snapshot("revenue") as snapshot:
            query = parse_query(snapshot.shape, {"orders >=": 10, "orders <": 40}, None, 5)
            (batch,) = snapshot.scan(["orders"], query)
        assert batch.schema.names == ["orders"]
        assert batch.num_rows == 5

    # Batches

    def test_rows_of_a_batch_are_there_when_it_is_written(self, store: ViewStore, view: View) -> None:
        assert store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2), ("c", "FR", "1.00", 1)))
        assert view.get("DE") == {"country": "DE", "amount": Decimal("12.50"), "orders": 2}
        assert view.count() == 2

    def test_a_key_is_updated_in_place(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2)))
        store.write("revenue", mark(1), changed(("u", "DE", "20.00", 3)))
        assert view.rows() == [{"country": "DE", "amount": Decimal("20.00"), "orders": 3}]

    def test_a_deleted_key_is_not_found(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2), ("c", "FR", "1.00", 1)))
        store.write("revenue", mark(1), changed(("d", "DE", None, None), ("d", "never there", None, None)))
        assert [row["country"] for row in view.rows()] == ["FR"]

    def test_a_batch_that_is_in_is_not_taken_again(self, store: ViewStore, view: View) -> None:
        assert store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2)))
        assert not store.write("revenue", mark(0), changed(("c", "DE", "99.00", 9)))
        assert view.get("DE") == {"country": "DE", "amount": Decimal("12.50"), "orders": 2}

    def test_views_written_in_one_transaction_change_at_once(self, where: Where, store: ViewStore, view: View) -> None:
        store.prepare("costs", SCHEMA, ["country"])
        with View.open(where, "shop", "costs") as costs, store.in_one_transaction():
            store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2), ("c", "FR", "1.00", 1)))
            store.write("costs", mark(0), changed(("c", "DE", "7.00", 1)))
            assert (view.count(), costs.count()) == (0, 0)
        with View.open(where, "shop", "costs") as costs:
            assert (view.count(), costs.count()) == (2, 1)
        with store.in_one_transaction():
            store.write("revenue", mark(1), changed(("d", "DE", None, None)))
            store.write("costs", mark(1), changed(("d", "DE", None, None)))
        assert [row["country"] for row in view.rows()] == ["FR"]

    def test_a_transaction_that_fails_leaves_none_of_its_writes(self, store: ViewStore, view: View) -> None:
        store.prepare("costs", SCHEMA, ["country"])
        store.adopt("costs", "shop/other/2")

        def write_both() -> None:
            with store.in_one_transaction():
                store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2)))
                store.write("costs", mark(0), changed(("c", "DE", "7.00", 1)))

        with pytest.raises(JobRefused):
            write_both()
        assert view.count() == 0
        assert store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2)))
        assert view.count() == 1

    def test_an_older_batch_is_skipped(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(5), changed(("c", "DE", "12.50", 2)))
        assert not store.write("revenue", mark(4), changed(("d", "DE", None, None)))
        assert view.position() == {"orders": {0: 6}}

    def test_an_empty_batch_moves_the_mark(self, store: ViewStore, view: View) -> None:
        assert store.write("revenue", mark(0, offset=7), changed())
        assert view.position() == {"orders": {0: 7}}
        assert not store.write("revenue", mark(0), changed())

    def test_the_last_row_of_a_key_counts(self, store: ViewStore, view: View) -> None:
        rows = changed(("c", "DE", "1.00", 1), ("c", "FR", "1.00", 1), ("u", "DE", "2.00", 2), ("d", "FR", None, None))
        store.write("revenue", mark(0), rows)
        assert view.rows() == [{"country": "DE", "amount": Decimal("2.00"), "orders": 2}]

    def test_a_null_is_a_key_like_any_other(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", None, "1.00", 1), ("c", "", "5.00", 5)))
        store.write("revenue", mark(1), changed(("u", None, "2.00", 2)))
        assert view.get(None) == {"country": None, "amount": Decimal("2.00"), "orders": 2}
        assert view.count() == 2
        store.write("revenue", mark(2), changed(("d", None, None, None)))
        assert view.get(None) is None
        assert view.count() == 1

    def test_a_batch_of_another_job_is_refused(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2)))
        with pytest.raises(JobRefused) as refusal:
            store.write("revenue", mark(1, job="shop/other/2"), changed(("d", "DE", None, None)))
        assert "revenue" in str(refusal.value)
        assert JOB in str(refusal.value)
        assert "shop/other/2" in str(refusal.value)
        assert view.count() == 1

    def test_a_view_can_be_adopted_by_another_job(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(8), changed(("c", "DE", "12.50", 2)))
        store.adopt("revenue", "shop/other/2")
        assert store.write("revenue", mark(0, job="shop/other/2"), changed(("c", "FR", "1.00", 1)))
        assert view.count() == 2

    def test_fifty_thousand_rows_go_in_at_once(self, store: ViewStore, view: View) -> None:
        count = 50_000
        rows = pa.table({"country": [f"country {number}" for number in range(count)],
                         "amount": pa.array(range(count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
                         "orders": pa.array(range(count), pa.int64())})  # fmt: skip
        store.write("revenue", mark(0), rows)
        assert view.count() == count
        assert view.get("country 49999") == {"country": "country 49999", "amount": Decimal("49999.00"), "orders": 49999}

    def test_a_view_that_was_never_prepared_is_unknown(self, store: ViewStore) -> None:
        with pytest.raises(UnknownView, match="revenue"):
            store.write("revenu", mark(0), changed())

    # Values

    @pytest.mark.parametrize("row", samples.ALL, ids=lambda row: str(row["id"]))
    def test_a_value_comes_back_as_it_was(self, where: Where, store: ViewStore, row: dict[str, object]) -> None:
        store.prepare("samples", samples.SCHEMA, ["id"])
        store.write("samples", mark(0), samples.table(samples.ALL))
        with View.open(where, "shop", "samples") as view:
            assert samples.shown(view.get(row["id"])) == samples.shown(row)

    def test_a_row_is_found_by_each_of_its_values(self, where: Where, store: ViewStore) -> None:
        store.prepare("samples", samples.SCHEMA, ["id"])
        store.write("samples", mark(0), samples.table(samples.ALL))
        with View.open(where, "shop", "samples") as view:
            found = {name: [row["id"] for row in view.rows({name: value})] for name, value in samples.FULL.items()}
        assert found == {name: ["full"] for name in samples.FULL}

    def test_nested_values_can_be_a_key(self, where: Where, store: ViewStore) -> None:
        window = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
        schema = pa.schema([("window", window), ("clicks", pa.int64())])
        key = {"start": datetime(2026, 1, 1, tzinfo=UTC), "end": datetime(2026, 1, 2, tzinfo=UTC)}
        store.prepare("clicks", schema, ["window"])
        store.write("clicks", mark(0), pa.Table.from_pylist([{"window": key, "clicks": 1}], schema=schema))
        store.write("clicks", mark(1), pa.Table.from_pylist([{"window": key, "clicks": 2}], schema=schema))
        with View.open(where, "shop", "clicks") as view:
            assert view.get(key) == {"window": key, "clicks": 2}
            assert view.count() == 1

    def test_a_time_no_calendar_has_is_refused(self, store: ViewStore) -> None:
        schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
        store.prepare("times", schema, ["id"])
        with pytest.raises(UnstorableValue, match="9999"):
            store.write("times", mark(0), pa.table({"id": [1], "at": [2**62]}).cast(schema))
        assert store.write("times", mark(0), pa.table({"id": [1], "at": [0]}).cast(schema))

    # Questions

    @pytest.mark.parametrize(
        "where_clause, found",
        [
            ({"amount >": 9}, "B C"),
            ({"amount >": Decimal("9.00")}, "B C"),
            ({"amount >=": "9.00"}, "A B C"),
            ({"amount >": 8.995}, "A B C"),
            ({"amount <": "8.995"}, "D E"),
            ({"amount <=": Decimal("8.999999")}, "D E"),
            ({"amount": 9}, "A"),
            ({"amount": Decimal("9.001")}, ""),
            ({"amount !=": 9}, "B C D E"),
            ({"amount in": [9, Decimal("-100.25"), 5]}, "A E"),
            ({"amount <": 10**40}, "A B C D E"),
            ({"amount >": -(10**40)}, "A B C D E"),
            ({"amount": None}, "F"),
            ({"amount !=": None}, "A B C D E"),
            ({"amount in": [9, None]}, "A F"),
            ({"amount in": []}, ""),
            ({"orders <": 3}, "A B"),
            ({"orders >=": 3, "country !=": "F"}, "C D E"),
            ({"country in": ["A", "Z"]}, "A"),
            ({"country": "' OR 1=1 --"}, ""),
        ],
    )
    def test_rows_are_chosen_by_comparing_values(
        self, store: ViewStore, view: View, where_clause: dict[str, object], found: str
    ) -> None:
        store.write("revenue", mark(0), FIVE_AND_A_NULL)
        assert sorted(str(row["country"]) for row in view.rows(where_clause)) == found.split()
        assert view.count(where_clause) == len(found.split())

    @pytest.mark.parametrize(
        "order, found",
        [
            ("amount", "FEDABC"),
            ("amount desc", "CBADEF"),
            ("amount desc, country", "CBADEF"),
            ("orders, amount", "ABCDEF"),
            (["country desc"], "FEDCBA"),
        ],
    )
    def test_rows_are_ordered_as_numbers_are(
        self, store: ViewStore, view: View, order: str | list[str], found: str
    ) -> None:
        store.write("revenue", mark(0), FIVE_AND_A_NULL)
        assert "".join(str(row["country"]) for row in view.rows(order=order)) == found
        assert "".join(str(row["country"]) for row in view.rows(order=order, limit=2)) == found[:2]

    def test_decimals_of_any_length_are_compared_exactly(self, where: Where, store: ViewStore) -> None:
        schema = pa.schema([("id", pa.int64()), ("n", pa.decimal128(38, 18))])
        largest, smallest = "99999999999999999999.999999999999999999", "0.000000000000000001"
        texts = [largest[:-1] + "8", largest, "0", "-1", f"-{smallest}", smallest, f"-{largest}"]
        store.prepare("exact", schema, ["id"])
        store.write("exact", mark(0), pa.table({"id": range(len(texts)), "n": texts}).cast(schema))
        with View.open(where, "shop", "exact") as view:
            numbers = sorted(Decimal(text) for text in texts)
            assert [row["n"] for row in view.rows(order="n")] == numbers
            assert [row["n"] for row in view.rows(order="n desc")] == numbers[::-1]
            for number in numbers:
                assert view.count({"n >": number}) == sum(other > number for other in numbers)
                assert view.count({"n <=": number}) == sum(other <= number for other in numbers)
                assert view.count({"n": number}) == 1

    def test_not_a_number_is_greater_than_all_numbers(self, where: Where, store: ViewStore) -> None:
        store.prepare("samples", samples.SCHEMA, ["id"])
        store.write("samples", mark(0), samples.table(samples.ALL))
        with View.open(where, "shop", "samples") as view:
            assert [row["id"] for row in view.rows({"number >": 10**300})] == ["nan"]
            assert [row["id"] for row in view.rows({"number": math.nan})] == ["nan"]
            assert view.rows({"number !=": None}, order="number desc")[0]["id"] == "nan"

    @pytest.mark.parametrize(
        "call",
        [
            lambda view: view.get(),
            lambda view: view.get("DE", "FR"),
            lambda view: view.rows({"amuont": 1}),
            lambda view: view.rows({"amount ~": 1}),
            lambda view: view.rows({"amount >": None}),
            lambda view: view.rows({"amount": "many"}),
            lambda view: view.rows({"orders": 2.5}),
            lambda view: view.rows({"orders in": 7}),
            lambda view: view.rows(order="amuont"),
            lambda view: view.rows(order="amount; DROP TABLE revenue"),
            lambda view: view.rows(order="_change"),
            lambda view: view.rows(limit=-1),
        ],
    )
    def test_a_question_that_cannot_be_answered_is_refused(self, view: View, call) -> None:
        with pytest.raises(InvalidQuery):
            call(view)

    def test_names_may_hold_anything(self, where: Where, store: ViewStore) -> None:
        schema = pa.schema([('a "key" %s', pa.int64()), ("b?1 $1 >", pa.string()), ("SELECT", pa.string())])
        store.prepare('top "10" %', schema, ['a "key" %s'])
        rows = pa.Table.from_pylist([{'a "key" %s': 1, "b?1 $1 >": "b", "SELECT": "s"}], schema=schema)
        store.write('top "10" %', mark(0), rows)
        store.write('top "10" %', mark(1), rows)
        with View.open(where, "shop", 'top "10" %') as view:
            assert view.get(1) == rows.to_pylist()[0]
            assert view.rows({"b?1 $1 >": "b", "SELECT =": "s"}, order="b?1 $1 > desc") == rows.to_pylist()

    def test_text_is_read_as_the_type_of_its_column(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2)))
        assert view.count({"orders": "2"}) == view.count({"amount": "12.5"}) == 1

    # Positions

    def test_a_read_waits_until_the_view_has_come_so_far(self, store: ViewStore, view: View) -> None:
        written = threading.Timer(0.1, store.write, ("revenue", mark(0, offset=6), changed(("c", "DE", "12.50", 2))))
        written.start()
        row = view.get("DE", at_least=Position("orders", 0, 5), timeout=LONG)
        written.join()
        assert row == {"country": "DE", "amount": Decimal("12.50"), "orders": 2}
        assert view.count(at_least={"orders": {0: 6}}, timeout=0) == 1

    def test_a_view_that_stays_behind_says_which_position_it_has(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0, offset=6), changed())
        with pytest.raises(ViewBehind) as behind:
            view.rows(at_least=Position("orders", 0, 6), timeout=0.05)
        assert 'view "revenue" has not reached orders/0 up to 7' in str(behind.value)
        assert "it has orders/0 up to 6" in str(behind.value)

    # Watching

    def test_a_subscriber_sees_each_change(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1), ("c", "FR", "1.00", 1)))
        with Watching(view) as seen:
            for batch in range(1, 30):
                store.write("revenue", mark(batch), changed(("c", f"country {batch}", "1.00", batch)))
        assert [(row or {}).get("orders") for op, _, row in seen if op == "upsert"] == list(range(1, 30))

    def test_watching_can_begin_with_all_that_is_there(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1), ("c", "FR", "1.00", 1)))
        changes = list(view.watch(snapshot=True, timeout=0))
        assert [(change.op, change.key) for change in changes] == [
            ("reset", {}),
            ("upsert", {"country": "DE"}),
            ("upsert", {"country": "FR"}),
        ]

    def test_a_subscriber_that_was_away_too_long_starts_again(
        self, store: ViewStore, view: View, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headwater.views.tables.WRITES_REMEMBERED", 3)
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1), ("c", "FR", "1.00", 1)))
        seen = view._counters()
        for batch in range(1, 8):
            store.write("revenue", mark(batch), changed(("d", "DE", None, None)))
        assert [change.op for change in view._changes_since(seen)[1]] == ["reset", "upsert"]
        recent = view._counters()[0], view._counters()[1] - 2
        assert [change.op for change in view._changes_since(recent)[1]] == ["delete", "delete"]

    def test_changes_can_be_read_in_steps_of_whole_writes(self, store: ViewStore, view: View) -> None:
        for batch, count in enumerate((2, 3, 9, 1)):
            store.write("revenue", mark(batch), changed(*(("c", f"{batch}-{one}", "1", 1) for one in range(count))))
        store.write("revenue", mark(4), changed(("d", "0-0", None, None), ("u", "0-1", "2", 2)))
        seen, steps = 0, []
        with store.snapshot("revenue") as snapshot:
            while seen < snapshot.mark.change:
                until = snapshot.last_write_within(seen, 4)
                numbered = snapshot.numbered_changes_after(seen, until)
                steps.append((until, len(numbered)))
                assert all(seen < number <= until for number, _ in numbered)
                seen = until
            assert sum(count for _, count in steps) == len(snapshot.numbered_changes_after(0)) == 15
        assert steps == [(2, 3), (3, 9), (5, 3)], "a write that alone is more is a step"

    def test_deletes_are_seen_with_their_key(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1), ("c", None, "1.00", 1)))
        with Watching(view) as seen:
            store.write("revenue", mark(1), changed(("d", "DE", None, None), ("d", None, None, None)))
            store.write("revenue", mark(2), changed(("c", "DE", "3.00", 3)))
        assert [change for change in seen if change[0] == "delete"] == [
            ("delete", {"country": "DE"}, None),
            ("delete", {"country": None}, None),
        ]
        assert seen[-1] == ("upsert", {"country": "DE"}, {"country": "DE", "amount": Decimal("3.00"), "orders": 3})

    # Change of shape

    def test_new_columns_are_added(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
        store.prepare("revenue", SCHEMA.append(pa.field("note", pa.string())), ["country"])
        assert view.columns == ("country", "amount", "orders", "note")
        assert view.get("DE") == {"country": "DE", "amount": Decimal("1.00"), "orders": 1, "note": None}

    def test_columns_that_are_no_longer_produced_stay_and_get_nulls(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
        store.prepare("revenue", SCHEMA.remove(2), ["country"])
        store.write("revenue", mark(1), changed(("u", "DE", "2.00", None)).drop_columns(["orders"]))
        assert view.get("DE") == {"country": "DE", "amount": Decimal("2.00"), "orders": None}

    def test_a_changed_type_is_refused_in_a_sentence(self, store: ViewStore) -> None:
        with pytest.raises(JobRefused) as refusal:
            store.prepare("revenue", SCHEMA.set(2, pa.field("orders", pa.string())), ["country"])
        assert str(refusal.value) == (
            'column "orders" of view "revenue" is long; the app now says string. '
            "Rebuild it from the log with: headwater run APP.py --rebuild revenue"
        )

    def test_a_changed_key_is_refused_in_a_sentence(self, store: ViewStore) -> None:
        with pytest.raises(JobRefused, match=r'view "revenue" has the key \(country\); the app now says \(orders\)'):
            store.prepare("revenue", SCHEMA, ["orders"])

    def test_preparing_twice_changes_nothing(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
        store.prepare("revenue", SCHEMA, ["country"])
        assert view.count() == 1
        assert not store.write("revenue", mark(0), changed())

    @pytest.mark.parametrize("name", ["", "_hidden", "x" * 49, "nul\0"])
    def test_a_name_that_no_table_can_have_is_refused(self, store: ViewStore, name: str) -> None:
        with pytest.raises(JobRefused, match="cannot name a view"):
            store.prepare(name, SCHEMA, ["country"])

    def test_a_column_that_cannot_be_stored_is_refused_with_its_name(self, store: ViewStore) -> None:
        with pytest.raises(UnstorableValue, match=r'column "wait" of view "odd".*duration'):
            store.prepare("odd", pa.schema([("id", pa.int64()), ("wait", pa.duration("us"))]), ["id"])

    # Names

    def test_a_renamed_view_has_its_rows_its_mark_and_its_changes(
        self, where: Where, store: ViewStore, view: View
    ) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1), ("c", "FR", "2.00", 1)))
        store.write("revenue", mark(1, offset=40), changed(("d", "FR", None, None)))
        before = store.mark("revenue")
        store.rename("revenue", "income")
        assert store.views() == ["income"]
        assert store.mark("revenue") is None
        after = store.mark("income")
        assert before is not None
        assert after is not None
        assert (after.job, after.batch, after.change) == (before.job, before.batch, before.change)
        with View.open(where, "shop", "income") as renamed:
            assert [row["country"] for row in renamed.rows()] == ["DE"]
        with store.snapshot("income") as snapshot:
            assert [one.key["country"] for one in snapshot.changes_after(1) if one.row is None] == ["FR"]
        assert not store.write("income", mark(1), changed(("c", "NO", "3.00", 1))), "it holds that batch"
        assert store.write("income", mark(2), changed(("c", "NO", "3.00", 1)))

    def test_the_old_name_of_a_view_is_free_again(self, store: ViewStore, view: View) -> None:
        store.rename("revenue", "income")
        store.prepare("revenue", SCHEMA, ["country"])
        store.rename("income", "earnings")
        assert store.views() == ["earnings", "revenue"]

    def test_a_read_under_the_old_name_fails_with_the_names_there_are(self, store: ViewStore, view: View) -> None:
        store.rename("revenue", "income")
        with pytest.raises(UnknownView, match=r'there is no view "revenue" in .*Known here: income'):
            view.count()

    def test_a_name_that_is_taken_is_refused_and_nothing_changes(self, store: ViewStore, view: View) -> None:
        store.prepare("income", SCHEMA, ["country"])
        with pytest.raises(JobRefused, match='has a view or table "income" already'):
            store.rename("revenue", "income")
        with pytest.raises(UnknownView):
            store.rename("nothing", "else")
        with pytest.raises(JobRefused, match="cannot name a view"):
            store.rename("revenue", "_hidden")
        assert store.views() == ["income", "revenue"]

    def test_a_view_that_is_being_rebuilt_is_not_renamed(self, store: ViewStore, view: View) -> None:
        store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
        with pytest.raises(JobRefused, match="is being rebuilt"):
            store.rename("revenue", "income")

    # Rebuilds

    def test_a_rebuilt_view_replaces_the_old_one_at_once(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(9), changed(("c", "DE", "1.00", 1), ("c", "FR", "1.00", 1)))
        changed_schema = SCHEMA.set(2, pa.field("orders", pa.string()))
        store.begin_shadow("revenue", changed_schema, ["country"], job="shop/new/3")
        rebuilt = pa.Table.from_pylist([{"country": "DE", "amount": Decimal("5.00"), "orders": "two"}], changed_schema)
        assert store.write("revenue", mark(0, job="shop/new/3"), rebuilt, shadow=True)
        assert view.count() == 2
        assert store.views() == ["revenue"]
        store.swap("revenue", mark(0, offset=40, job="shop/new/3"))
        assert view.rows() == rebuilt.to_pylist()
        assert view.position() == {"orders": {0: 40}}
        assert not store.write("revenue", mark(0, job="shop/new/3"), rebuilt)
        assert store.write("revenue", mark(1, job="shop/new/3"), rebuilt)

    def test_a_reader_in_the_midst_of_a_swap_sees_the_old_rows(
        self, where: Where, store: ViewStore, view: View
    ) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))

        def rebuild() -> None:
            store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
            store.write("revenue", mark(0, job="shop/new/3"), changed(("c", "FR", "5.00", 5)), shadow=True)
            store.swap("revenue", mark(0, job="shop/new/3"))

        swapping = threading.Thread(target=rebuild)
        reader = open_store(where, "shop", read_only=True)
        with reader.snapshot("revenue") as snapshot:
            swapping.start()
            swapping.join(0.5)  # it is through, or it waits for us
            assert [row["country"] for row in snapshot.select(Query())] == ["DE"]
        swapping.join()
        reader.close()
        assert [row["country"] for row in view.rows()] == ["FR"]

    def test_a_swap_leaves_no_deletes(self, store: ViewStore, view: View) -> None:
        """Those of the old view mean nothing to the new one, and nobody watched the shadow."""
        store.write("revenue", mark(0), changed(("d", "DE", None, None)))
        store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
        store.write("revenue", mark(0, job="shop/new/3"), changed(("d", "FR", None, None)), shadow=True)
        store.swap("revenue", mark(0, job="shop/new/3"))
        assert isinstance(store, SqlStore)
        assert store._run(f"SELECT count(*) FROM {store._table(DELETES)}") == [(0,)]

    def test_what_a_swap_has_kept_can_take_its_place_again(self, store: ViewStore, view: View) -> None:
        at = mark(7)
        store.write("revenue", at, changed(("c", "DE", "1.00", 1)))
        before = view.rows()
        store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
        store.write("revenue", mark(0, job="shop/new/3"), changed(("c", "FR", "5.00", 5)), shadow=True)
        store.swap("revenue", at, keep=True)
        assert ([row["country"] for row in view.rows()], store.views()) == (["FR"], ["revenue"])
        kept = store.replaced("revenue")
        assert kept is not None
        assert kept.batch == at.batch
        for _ in range(2):
            store.take_back("revenue", "shop/back/3")
        assert store.replaced("revenue") is None
        assert store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/back/3").batch == at.batch
        store.swap("revenue", at, keep=True)
        assert view.rows() == before
        store.drop("revenue")
        assert store.replaced("revenue") is None

    def test_what_holds_another_batch_is_not_kept(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(7), changed(("c", "DE", "1.00", 1)))
        store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
        store.swap("revenue", mark(6), keep=True)
        assert store.replaced("revenue") is None

    def test_a_swap_that_is_repeated_does_nothing(self, store: ViewStore, view: View) -> None:
        store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
        store.write("revenue", mark(0, job="shop/new/3"), changed(("c", "DE", "1.00", 1)), shadow=True)
        store.swap("revenue", mark(0, job="shop/new/3"))
        store.swap("revenue", mark(0, job="shop/new/3"))
        assert view.count() == 1
        with pytest.raises(JobRefused, match="no shadow"):
            store.swap("revenue", mark(7, job="shop/new/3"))

    def test_a_rebuild_that_was_begun_is_continued(self, store: ViewStore, view: View) -> None:
        store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
        store.write("revenue", mark(4, job="shop/new/3"), changed(("c", "DE", "1.00", 1)), shadow=True)
        assert store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3").batch == 4
        assert not store.write("revenue", mark(4, job="shop/new/3"), changed(), shadow=True)
        assert store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/newer/4").batch == -1
        store.drop_shadow("revenue")
        store.drop_shadow("revenue")
        assert store.mark("revenue", shadow=True) is None
        assert view.count() == 0

    def test_views_can_be_rebuilt_again_and_again(self, store: ViewStore, view: View) -> None:
        for number in range(3):
            job = f"shop/new/{number}"
            store.begin_shadow("revenue", SCHEMA, ["country"], job=job)
            store.write("revenue", mark(0, job=job), changed(("c", str(number), "1.00", 1)), shadow=True)
            store.swap("revenue", mark(0, job=job))
            assert [row["country"] for row in view.rows()] == [str(number)]

    def test_a_subscriber_of_a_rebuilt_view_starts_again(self, store: ViewStore, view: View) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1), ("c", "FR", "1.00", 1)))
        with Watching(view) as seen:
            store.begin_shadow("revenue", SCHEMA, ["country"], job="shop/new/3")
            store.write("revenue", mark(0, job="shop/new/3"), changed(("c", "DE", "5.00", 5)), shadow=True)
            store.swap("revenue", mark(0, job="shop/new/3"))
        assert seen == [
            ("reset", {}, None),
            ("upsert", {"country": "DE"}, {"country": "DE", "amount": Decimal("5.00"), "orders": 5}),
        ]

    # Tables without a key

    def test_without_a_key_each_batch_adds_its_rows(self, where: Where, store: ViewStore) -> None:
        store.prepare("events", SCHEMA, [])
        rows = changed(("c", "DE", "1.00", 1), ("c", "DE", "1.00", 1)).drop_columns(["_op"])
        assert store.write("events", mark(0), rows)
        assert not store.write("events", mark(0), rows)
        assert store.write("events", mark(1), rows)
        with View.open(where, "shop", "events") as view:
            assert view.count() == 4
            with pytest.raises(InvalidQuery, match="has no key"):
                view.get("DE")

    # Reading

    def test_a_view_that_does_not_exist_is_named_with_those_that_do(self, where: Where, store: ViewStore) -> None:
        with pytest.raises(UnknownView, match="revenue"):
            View.open(where, "shop", "revenu")
        with pytest.raises(UnknownView, match="no views yet"):
            View.open(where, "shopping", "revenue")

    def test_a_view_can_be_read_without_a_writer(self, where: Where, store: ViewStore) -> None:
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
        store.close()
        with View.open(where, "shop", "revenue") as view:
            assert view.get("DE") == {"country": "DE", "amount": Decimal("1.00"), "orders": 1}

    def test_readers_see_whole_batches_while_one_is_written(self, where: Where, store: ViewStore) -> None:
        """Every batch sets all amounts to its number: two numbers in one answer are a torn batch."""
        stop = threading.Event()
        torn: list[set[object]] = []

        def read() -> None:
            with View.open(where, "shop", "revenue") as view:
                while not stop.is_set():
                    if len(seen := {row["orders"] for row in view.rows()}) > 1:
                        torn.append(seen)

        reader = threading.Thread(target=read)
        reader.start()
        for batch in range(20):
            store.write("revenue", mark(batch), changed(*(("u", str(key), "1.00", batch) for key in range(500))))
        stop.set()
        reader.join()
        assert torn == []

    def test_two_writers_of_one_job_take_turns(self, where: Where, store: ViewStore, view: View) -> None:
        """The second of two processes that run the same job is emitted that the batch is in."""
        results: list[bool] = []

        def write() -> None:
            own = open_store(where, "shop")
            results.append(own.write("revenue", mark(0), changed(*(("c", str(key), "1.00", 1) for key in range(2000)))))
            own.close()

        writers = [threading.Thread(target=write) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert sorted(results) == [False, False, False, True]
        assert view.count() == 2000


FIVE_AND_A_NULL = changed(
    ("c", "A", "9.00", 1),
    ("c", "B", "10.00", 2),
    ("c", "C", "100.50", 3),
    ("c", "D", "-9.00", 4),
    ("c", "E", "-100.25", 5),
    ("c", "F", None, 6),
)


def by_id(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(maps_as_pydicts="strict"), key=lambda row: str(row["id"]))


class Watching:
    """The changes of a view while the block runs, and until none came for a while."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.seen: list[Change] = []

    def __enter__(self) -> list[Change]:
        changes = self._view.watch(timeout=0.5)
        started = threading.Event()
        original = self._view._changes_since

        def noticed(seen):  # the first look has been taken
            started.set()
            return original(seen)

        self._view._changes_since = noticed  # type: ignore[method-assign]
        self._thread = threading.Thread(target=lambda: self.seen.extend(changes))
        self._thread.start()
        started.wait(LONG)
        return self.seen

    def __exit__(self, *_: object) -> None:
        self._thread.join()
