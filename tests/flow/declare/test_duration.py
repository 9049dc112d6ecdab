import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.duration import duration_us, spelled


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("90s", 90),
        ("10 minutes", 600),
        ("1 minute", 60),
        ("1 hour 30 minutes", 5400),
        ("1.5h", 5400),
        ("2 weeks", 1_209_600),
        ("250ms", 0.25),
        ("0s", 0),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration_us(text) == seconds * 1_000_000


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10 parsecs", "1 hour and 2 minutes", "-5s", "5 s s"])
def test_anything_else_is_refused_with_its_place_and_an_example(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"test_duration\.py:\d+\) is not a duration\. .*\"90s\""):
        duration_us(text)


@given(st.integers(0, 10**15))
def test_a_duration_that_is_spelled_out_reads_back_as_the_same(us: int) -> None:
    assert duration_us(spelled(us)) == us
