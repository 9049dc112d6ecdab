from hypothesis import given
from hypothesis import strategies as st

from headwater.record import Position
from headwater.views.mark import covers, position_from_json, position_to_json, spoken

positions = st.dictionaries(st.text(), st.dictionaries(st.integers(0, 9), st.integers(0, 2**62)))


@given(positions)
def test_a_position_is_kept_as_json_and_comes_back(position: dict[str, dict[int, int]]) -> None:
    assert position_from_json(position_to_json(position)) == position


@given(positions)
def test_a_position_covers_itself(position: dict[str, dict[int, int]]) -> None:
    assert covers(position, position)


def test_a_record_is_covered_when_the_next_offset_lies_after_it() -> None:
    assert [covers({"a": {0: 5}}, Position("a", 0, offset)) for offset in (4, 5)] == [True, False]


def test_what_is_unknown_is_at_its_beginning() -> None:
    assert not covers({"a": {0: 5}}, Position("b", 0, 0))
    assert not covers({"a": {0: 5}}, Position("a", 1, 0))
    assert covers({}, {"a": {0: 0}})


def test_no_position_is_spoken_as_nothing() -> None:
    assert spoken({}) == "nothing yet"
