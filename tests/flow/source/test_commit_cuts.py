"""Plans over captured topics end where transactions do, whatever cuts them short."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.source.batch_plan.admission import Guess, Plan, rows_between
from headwater.flow.source.batch_plan.commit_cuts import CommitHistory, plan_whole
from headwater.log.commit_points import CommitPoint
from headwater.record import TopicPartition
from tests.flow.source.test_planning import Broker

ACCOUNTS, SAVINGS, CLICKS = TopicPartition("accounts", 0), TopicPartition("savings", 0), TopicPartition("clicks", 0)
Vector = dict[TopicPartition, int]
Row = tuple[TopicPartition, int]


def history(*ends: Vector, epoch: int = 1, before: tuple[CommitPoint, ...] = ()) -> CommitHistory:
    points = [*before, *(CommitPoint(epoch, one) for one in ends)]
    return CommitHistory(points[-1], frozenset(ends[-1]), 0, len(points) - 1, points.__getitem__)


def at_no_time(time_ms: int) -> Vector:
    return {}


def planned(start: Vector, ends: Vector, limit: int | None, *histories: CommitHistory) -> Vector:
    return plan_whole(start, ends, limit, at_no_time, histories).ends


def test_nothing_behind_the_last_commit_point_is_read() -> None:
    commits = history({ACCOUNTS: 0, SAVINGS: 0}, {ACCOUNTS: 10, SAVINGS: 4})
    assert planned({}, {ACCOUNTS: 15, SAVINGS: 4}, None, commits) == {ACCOUNTS: 10, SAVINGS: 4}


def test_a_batch_that_is_cut_short_ends_at_the_last_commit_point_that_fits() -> None:
    points = [{ACCOUNTS: 5 * number, SAVINGS: 5 * number} for number in range(10)]
    assert planned({}, {ACCOUNTS: 45, SAVINGS: 45}, 36, history(*points)) == {ACCOUNTS: 15, SAVINGS: 15}


def test_a_transaction_that_is_larger_than_a_batch_may_be_is_read_as_a_whole() -> None:
    commits = history({ACCOUNTS: 0, SAVINGS: 0}, {ACCOUNTS: 50, SAVINGS: 50}, {ACCOUNTS: 52, SAVINGS: 52})
    assert planned({}, {ACCOUNTS: 52, SAVINGS: 52}, 3, commits) == {ACCOUNTS: 50, SAVINGS: 50}


def test_topics_that_no_capture_writes_are_cut_as_ever() -> None:
    commits = history({ACCOUNTS: 0}, {ACCOUNTS: 50})
    ends = planned({}, {ACCOUNTS: 50, CLICKS: 1000}, 100, commits)
    assert ends[ACCOUNTS] in (0, 50)
    assert 0 < ends[CLICKS] <= 100


def test_a_partition_that_is_kept_back_for_an_open_transaction_is_not_taken_for_idle() -> None:
    commits = history({ACCOUNTS: 0}, {ACCOUNTS: 10})
    made = plan_whole({}, {ACCOUNTS: 15, CLICKS: 3}, None, at_no_time, [commits])
    assert made.ends == {ACCOUNTS: 10, CLICKS: 3}
    assert made.held == {ACCOUNTS}


def test_before_the_oldest_commit_point_a_batch_is_cut_as_any_other_and_meets_that_point() -> None:
    commits = history({ACCOUNTS: 100, SAVINGS: 30}, {ACCOUNTS: 110, SAVINGS: 40})
    position, ends = {ACCOUNTS: 0, SAVINGS: 0}, {ACCOUNTS: 110, SAVINGS: 40}
    seen = []
    while position != ends:
        position = planned(position, ends, 7, commits)
        seen.append(position)
    assert {ACCOUNTS: 100, SAVINGS: 30} in seen
    assert len(seen) > 10


def test_all_that_is_there_is_read_at_once_if_it_fits_although_its_beginning_has_no_commit_points() -> None:
    commits = history({ACCOUNTS: 100}, {ACCOUNTS: 110})
    assert planned({}, {ACCOUNTS: 115}, None, commits) == {ACCOUNTS: 110}


def test_commit_points_of_an_earlier_epoch_are_not_believed() -> None:
    old = (CommitPoint(1, {ACCOUNTS: 500}), CommitPoint(1, {ACCOUNTS: 900}))
    commits = history({ACCOUNTS: 0}, {ACCOUNTS: 10}, epoch=2, before=old)
    assert planned({}, {ACCOUNTS: 12}, None, commits) == {ACCOUNTS: 10}
    assert planned({}, {ACCOUNTS: 12}, 3, commits) == {ACCOUNTS: 10}


def test_a_start_behind_the_last_commit_point_waits_for_the_next() -> None:
    commits = history({ACCOUNTS: 0}, {ACCOUNTS: 10})
    assert planned({ACCOUNTS: 12}, {ACCOUNTS: 15}, None, commits) == {ACCOUNTS: 12}
    assert planned({ACCOUNTS: 12}, {ACCOUNTS: 15}, 1, commits) == {ACCOUNTS: 12}


def test_a_table_that_joined_later_was_empty_before() -> None:
    commits = history({ACCOUNTS: 0}, {ACCOUNTS: 10}, {ACCOUNTS: 12, SAVINGS: 2})
    assert planned({}, {ACCOUNTS: 12, SAVINGS: 2}, 11, commits) == {ACCOUNTS: 10, SAVINGS: 0}


def test_a_partition_that_is_not_to_be_read_yet_does_not_matter() -> None:
    commits = history({ACCOUNTS: 0, SAVINGS: 0}, {ACCOUNTS: 10, SAVINGS: 4})
    assert planned({}, {ACCOUNTS: 15}, None, commits) == {ACCOUNTS: 10}


# -- any log, any appends, any limits ---------------------------------------------------------------------------------


@dataclass
class Database:
    """Transactions of a capture as they lie in partitions, and the commit points that the capture wrote."""

    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    owners: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Of each record, which transaction it is of."""
    points: list[Vector] = field(default_factory=list)

    def ends(self) -> Vector:
        return {place: len(times) for place, times in self.times.items()}

    def cuts_none(self, ends: Vector) -> bool:
        """Whether each transaction is before these offsets as a whole, or not at all."""
        before = {owner for place, owners in self.owners.items() for owner in owners[: ends[place]]}
        behind = {owner for place, owners in self.owners.items() for owner in owners[ends[place] :]}
        return not before & behind


PLACES = [TopicPartition(topic, number) for topic in ("accounts", "savings") for number in range(2)]
TRANSACTIONS = st.lists(
    st.tuples(st.lists(st.sampled_from(PLACES), min_size=1, max_size=12), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=30,
)


def database_of(transactions: list[tuple[list[TopicPartition], int, bool]], *, base: bool, left: int) -> Database:
    """Each with its rows, its time, and whether an append ends with it; `left` rows of one more are there already."""
    made = Database({place: [] for place in PLACES}, {place: [] for place in PLACES})
    if base:
        made.points.append(made.ends())
    for number, (rows, time_ms, noted) in enumerate(transactions):
        for place in rows:
            made.times[place].append(time_ms)
            made.owners[place].append(number)
        if noted:
            made.points.append(made.ends())
    for place in PLACES[:left]:
        made.times[place].append(5)
        made.owners[place].append(len(transactions))
    for place in PLACES[left:]:
        made.owners[place].append(len(transactions))  # not appended yet
    return made


def run_through(made: Database, clicks: list[int], limit: int | None) -> tuple[list[Plan], Vector]:
    log = {**made.times, CLICKS: clicks}
    broker, ends = Broker(log), {place: len(times) for place, times in log.items()}
    commits = [history(*made.points)] if made.points else []
    goal = {**ends, **(made.points[-1] if made.points else {})}
    position, guess, plans = dict.fromkeys(ends, 0), None, list[Plan]()
    while position != goal:
        plans.append(plan_whole(position, ends, limit, broker.at_time, commits, guess=guess))
        assert rows_between(position, plans[-1].ends) > 0, "a batch must make progress"
        assert all(position[place] <= plans[-1].ends[place] <= goal[place] for place in ends)
        if plans[-1].time_ms is not None:
            guess = Guess(plans[-1].time_ms, 1)
        position = plans[-1].ends
    assert plan_whole(position, ends, limit, broker.at_time, commits).ends == goal
    return plans, ends


@settings(max_examples=300)
@given(TRANSACTIONS, st.integers(0, 4), st.lists(st.integers(0, 9), max_size=30), st.none() | st.integers(1, 40))
def test_whatever_is_appended_and_noted_every_batch_ends_between_transactions_and_goes_forward(
    transactions: list[tuple[list[TopicPartition], int, bool]], left: int, clicks: list[int], limit: int | None
) -> None:
    made = database_of(transactions, base=True, left=left)
    plans, _ = run_through(made, clicks, limit)
    assert all(made.cuts_none({place: one.ends[place] for place in PLACES}) for one in plans)


@settings(max_examples=300)
@given(TRANSACTIONS, st.integers(0, 4), st.lists(st.integers(0, 9), max_size=30), st.none() | st.integers(1, 40))
def test_where_the_beginning_has_no_commit_points_batches_go_forward_and_are_whole_from_the_first_one_on(
    transactions: list[tuple[list[TopicPartition], int, bool]], left: int, clicks: list[int], limit: int | None
) -> None:
    made = database_of(transactions, base=False, left=left)
    plans, _ = run_through(made, clicks, limit)
    first = made.points[0] if made.points else dict.fromkeys(PLACES, 10**6)
    behind = [one for one in plans if all(one.ends[place] >= first[place] for place in PLACES)]
    assert all(made.cuts_none({place: one.ends[place] for place in PLACES}) for one in behind)
