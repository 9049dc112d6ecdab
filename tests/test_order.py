"""Files that take long are run first."""

from tests.order import FIRST, WARMING, longest_first
from tests.rules.source import ROOT


def test_every_file_that_comes_first_is_there() -> None:
    assert [name for name in (*FIRST, WARMING) if not (ROOT / name).is_file()] == []
    assert len(set(FIRST)) == len(FIRST)


def test_all_others_keep_their_order_and_so_do_the_tests_of_a_file() -> None:
    given = ["tests/b.py::2", "tests/a.py::1", f"{FIRST[1]}::2", f"{FIRST[0]}::9", f"{FIRST[1]}::1"]
    first = [f"{FIRST[0]}::9", f"{FIRST[1]}::2", f"{FIRST[1]}::1"]
    assert longest_first(given, lambda item: item.split("::")[0]) == [*first, "tests/b.py::2", "tests/a.py::1"]
