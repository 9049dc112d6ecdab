import sys

import pytest

from headwater.errors import JobRefused
from headwater.views.store import open_store


def test_a_missing_driver_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "headwater.views.postgres", raising=False)
    with pytest.raises(JobRefused, match=r"pip install \"headwater\[postgres\]\""):
        open_store("postgresql://127.0.0.1/shop", "shop")
