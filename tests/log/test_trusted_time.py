"""Clocks that jump make nothing old before its time."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.trusted_time import HOLD_MS, UNREMARKABLE_MS, Moment, TrustedTime

HOUR, DAY, YEAR = 3_600_000, 86_400_000, 31_536_000_000
NOW = 1_700_000_000_000


def test_time_passes_as_it_truly_does() -> None:
    time = TrustedTime(now_ms=NOW, elapsed_ms=50)
    assert time.now_ms(wall_ms=NOW + HOUR, elapsed_ms=50 + HOUR) == NOW + HOUR


def test_a_jump_ahead_is_not_followed() -> None:
    time = TrustedTime(now_ms=NOW, elapsed_ms=0)
    assert time.now_ms(wall_ms=NOW + YEAR, elapsed_ms=HOUR) == NOW + HOUR


def test_a_jump_back_is_followed_at_once_and_time_continues_from_there() -> None:
    time = TrustedTime(now_ms=NOW, elapsed_ms=0)
    assert time.now_ms(wall_ms=NOW - DAY, elapsed_ms=HOUR) == NOW - DAY
    assert time.now_ms(wall_ms=NOW + YEAR, elapsed_ms=2 * HOUR) == NOW - DAY + HOUR


@given(
    jumps=st.lists(st.tuples(st.integers(0, 10 * DAY), st.integers(-2 * YEAR, 2 * YEAR)), max_size=12),
)
def test_whatever_the_wall_clock_does_no_more_time_passes_than_truly_did(jumps: list[tuple[int, int]]) -> None:
    time = TrustedTime(now_ms=NOW, elapsed_ms=0)
    wall, elapsed, before = NOW, 0, NOW
    for passed, jump in jumps:
        wall, elapsed = wall + passed + jump, elapsed + passed
        now = time.now_ms(wall_ms=wall, elapsed_ms=elapsed)
        assert now - before <= passed
        assert now <= wall
        before = now


def test_a_restart_on_the_same_boot_knows_exactly_how_long_it_was_away() -> None:
    last = Moment(NOW, elapsed_ms=500, boot_id="b")
    time = TrustedTime(now_ms=NOW + YEAR, elapsed_ms=500 + HOUR, boot_id="b", last=last)
    assert time.now_ms(wall_ms=NOW + YEAR, elapsed_ms=500 + HOUR) == NOW + HOUR
    assert not time.deletion_held(elapsed_ms=500 + HOUR)


def test_after_a_reboot_a_time_that_much_later_holds_deletion_back_for_a_while() -> None:
    last = Moment(NOW, elapsed_ms=10 * HOUR, boot_id="b")
    time = TrustedTime(now_ms=NOW + YEAR, elapsed_ms=100, boot_id="c", last=last)
    assert time.deletion_held(elapsed_ms=100)
    assert time.deletion_held(elapsed_ms=100 + HOLD_MS - 1)
    assert not time.deletion_held(elapsed_ms=100 + HOLD_MS)
    assert time.now_ms(wall_ms=NOW + YEAR, elapsed_ms=100) == NOW + YEAR


def test_after_a_reboot_of_ordinary_length_nothing_is_held() -> None:
    last = Moment(NOW, elapsed_ms=10 * HOUR, boot_id="b")
    time = TrustedTime(now_ms=NOW + UNREMARKABLE_MS, elapsed_ms=100, boot_id="c", last=last)
    assert not time.deletion_held(elapsed_ms=100)


def test_an_elapsed_clock_that_went_back_reveals_a_reboot_though_the_boot_has_no_name() -> None:
    last = Moment(NOW, elapsed_ms=10 * HOUR, boot_id="")
    time = TrustedTime(now_ms=NOW + YEAR, elapsed_ms=HOUR, boot_id="", last=last)
    assert time.deletion_held(elapsed_ms=HOUR)


def test_a_first_start_holds_nothing() -> None:
    assert not TrustedTime(now_ms=NOW, elapsed_ms=5).deletion_held(elapsed_ms=5)


def test_what_is_written_down_is_what_was_trusted() -> None:
    time = TrustedTime(now_ms=NOW, elapsed_ms=0, boot_id="b")
    assert time.moment(wall_ms=NOW + YEAR, elapsed_ms=HOUR) == Moment(NOW + HOUR, HOUR, "b")
