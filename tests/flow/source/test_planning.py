from bisect import bisect_left
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.source.batch_plan.admission import PROBES_MAX, Guess, Loss, Plan, losses, plan, rows_between
from headwater.record import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)

TIMES = st.integers(-1, 50) | st.integers(0, 2**41) | st.integers(1_700_000_000_000, 1_700_000_000_100)
LOGS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 1)), st.lists(TIMES, max_size=25), min_size=1
)
IN_ORDER = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 1)),
    st.lists(st.integers(0, 4) | st.integers(0, 2**40), max_size=25).map(sorted),
    min_size=1,
)

Log = dict[TopicPartition, list[int]]


class Broker:
    """Answers as ListOffsets does: the first record at or after a time, -1 if there is none."""

    def __init__(self, log: Log) -> None:
        self.newest = {place: list(accumulate(times, max)) for place, times in log.items()}

    def at_time(self, time_ms: int) -> dict[TopicPartition, int]:
        found = {place: bisect_left(newest, time_ms) for place, newest in self.newest.items()}
        return {place: -1 if offset == len(self.newest[place]) else offset for place, offset in found.items()}


def batches_of(log: Log, limit: int | None) -> list[Plan]:
    """Plan after plan until all is read, as a query does; each is tried with what the one before it learnt."""
    broker, ends = Broker(log), {place: len(times) for place, times in log.items()}
    position, guess, plans = dict.fromkeys(ends, 0), None, []
    while position != ends:
        made = plan(position, ends, limit, broker.at_time, guess=guess)
        plans.append(made)
        assert rows_between(position, made.ends) > 0, "a batch must make progress"
        assert all(position[place] <= made.ends[place] <= ends[place] for place in ends)
        assert limit is None or rows_between(position, made.ends) <= limit
        if made.time_ms is not None:
            guess = Guess(made.time_ms, 1 if guess is None else max(1, made.time_ms - guess.time_ms))
        position = made.ends
    return plans


@given(LOGS, st.integers(1, 40))
def test_every_batch_makes_progress_stays_within_the_limit_and_goes_neither_back_nor_beyond(
    log: Log, limit: int
) -> None:
    for made in batches_of(log, limit):
        assert made.probes <= PROBES_MAX + 45


@given(LOGS)
def test_without_a_limit_all_is_taken_at_once(log: Log) -> None:
    assert len(batches_of(log, None)) <= 1


@given(IN_ORDER, st.integers(1, 40))
def test_no_partition_runs_ahead_of_what_another_has_not_read(log: Log, limit: int) -> None:
    for made in batches_of(log, limit):
        read = [time for place, times in log.items() for time in times[: made.ends[place]]]
        unread = [times[made.ends[place]] for place, times in log.items() if made.ends[place] < len(times)]
        # Records of the same moment cannot be told apart by time: that is all a partition may be ahead.
        assert not read or not unread or max(read) <= min(unread)


def test_a_partition_an_hour_ahead_waits_for_the_other() -> None:
    hour = 3_600_000
    log = {A: [minute * 60_000 for minute in range(60)], B: [hour + minute * 60_000 for minute in range(60)]}
    made = plan({A: 0, B: 0}, {A: 60, B: 60}, 60, Broker(log).at_time)
    assert made.ends[A] >= 45
    assert made.ends[B] == 0


def test_equal_times_are_shared_out_fairly() -> None:
    log = {A: [5] * 100, B: [5] * 300}
    made = plan({A: 0, B: 0}, {A: 100, B: 300}, 40, Broker(log).at_time)
    assert made.ends == {A: 10, B: 30}


def test_a_partition_without_times_does_not_stop_the_others() -> None:
    log = {A: [-1] * 20, B: list(range(20))}
    assert sum(1 for _ in batches_of(log, 7)) <= 10


def test_what_fits_is_taken_without_asking_for_times() -> None:
    def nobody(_: int) -> dict[TopicPartition, int]:
        raise AssertionError

    assert plan({A: 3}, {A: 13}, 10, nobody).ends == {A: 13}


def test_a_guess_saves_probes() -> None:
    log = {A: [1_700_000_000_000 + second * 1000 for second in range(100_000)]}
    position, counts, guess = {A: 0}, [], None
    for _ in range(5):
        made = plan(position, {A: 100_000}, 1000, Broker(log).at_time, guess=guess)
        assert made.time_ms is not None
        step = 1 if guess is None else made.time_ms - guess.time_ms
        position, guess = made.ends, Guess(made.time_ms, step)
        counts.append(made.probes)
    assert max(counts[2:]) <= 3


def test_an_estimate_that_is_about_right_saves_probes() -> None:
    broker = Broker({A: [1_700_000_000_000 + second * 1000 for second in range(100_000)]})

    def estimate(time_ms: int) -> dict[TopicPartition, int]:
        return {A: min(100_000, max(0, (time_ms - 1_700_000_000_000) // 1050))}

    made = plan({A: 5000}, {A: 100_000}, 1000, broker.at_time, guess=lambda: estimate)
    assert made.probes <= 4
    assert 750 <= made.ends[A] - 5000 <= 1000


@given(LOGS, st.integers(1, 40), LOGS)
def test_a_wrong_estimate_costs_probes_and_nothing_else(log: Log, limit: int, other: Log) -> None:
    broker, ends, wrong = Broker(log), {place: len(times) for place, times in log.items()}, Broker(other)
    made = plan(dict.fromkeys(ends, 0), ends, limit, broker.at_time, guess=lambda: wrong.at_time)
    assert made.probes <= PROBES_MAX + 1
    assert all(0 <= made.ends[place] <= ends[place] for place in ends)
    assert min(sum(ends.values()), 1) <= rows_between({}, made.ends) <= limit


def test_an_end_before_the_start_is_taken_for_the_start() -> None:
    assert plan({A: 9}, {A: 5}, None, lambda _: {}).ends == {A: 9}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    assert plan({A: 9}, {A: 9, B: 2}, None, lambda _: {}).ends == {A: 9, B: 2}


def test_a_loss_is_what_lies_between_the_start_and_the_beginning_of_the_log() -> None:
    assert losses({A: 5, B: 5}, {A: 12, B: 3}) == {A: Loss(5, 12)}
