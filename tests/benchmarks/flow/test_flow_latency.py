import pytest

from benchmarks.flow.flow_latency import delays_between


def test_a_record_is_seen_when_the_view_is_first_beyond_its_offset() -> None:
    sent, seen = [1.0, 1.1, 1.2, 1.3], [(2.0, 11), (3.0, 13), (4.0, 14)]
    assert delays_between(sent, seen, 10) == pytest.approx([1.0, 1.9, 1.8, 2.7])


def test_a_record_that_was_never_seen_is_an_error() -> None:
    with pytest.raises(IndexError):
        delays_between([1.0, 1.1], [(2.0, 11)], 10)
