"""A rebuild that stops anywhere leaves the old view readable, and is continued. Subclass, give a `where` fixture."""

from itertools import count
from pathlib import Path

import pytest

from headwater.views.store import ViewStore, open_store
from headwater.views.tables import SqlStore
from headwater.views.view import View
from tests.contracts.sink import STEPS_MAX, Faults, Stopped
from tests.contracts.view_store import SCHEMA, changed, mark
from tests.flow.sinks.places import stopping


def rebuild(store: ViewStore, job: str, country: str) -> None:
    store.begin_shadow("revenue", SCHEMA, ["country"], job=job)
    store.write("revenue", mark(0, job=job), changed(("c", country, "1.00", 1)), shadow=True)
    store.swap("revenue", mark(0, job=job))


def stops(store: ViewStore, job: str, country: str) -> bool:
    try:
        rebuild(store, job, country)
    except Stopped:
        return True
    finally:
        store.close()
    return False


class RebuildContract:
    @pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
    def test_a_rebuild_that_stops_anywhere_shows_the_old_view_or_the_new(self, where: str | Path, after: bool) -> None:
        store = open_store(where, "shop")
        store.prepare("revenue", SCHEMA, ["country"])
        store.write("revenue", mark(0), changed(("c", "0", "1.00", 1)))
        with View.open(where, "shop", "revenue") as view:
            for step in count(1):
                faulty = open_store(where, "shop")
                assert isinstance(faulty, SqlStore)
                stopped = stops(stopping(faulty, Faults(step, after=after)), f"shop/new/{step}", str(step))
                assert [row["country"] for row in view.rows()] in ([str(step - 1)], [str(step)])
                rebuild(store, f"shop/new/{step}", str(step))
                assert [row["country"] for row in view.rows()] == [str(step)]
                if not stopped:
                    break
                assert step < STEPS_MAX
        store.close()
        assert step > 10
