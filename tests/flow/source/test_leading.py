"""Tables whose rows say since when they hold are read before what they are joined with."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.source.batch_plan.leading import ends_asked, plan_leading
from headwater.record import TopicPartition

LEADING = frozenset({"tariffs"})
TARIFFS, OTHERS = TopicPartition("tariffs", 0), [TopicPartition("trips", 0), TopicPartition("trips", 1)]
counts = st.integers(0, 30)


@given(st.lists(counts, min_size=3, max_size=3), st.lists(counts, min_size=3, max_size=3), st.integers(1, 40))
def test_nothing_is_read_of_others_while_something_is_left_of_them(
    begun: list[int], more: list[int], limit: int
) -> None:
    places = [TARIFFS, *OTHERS]
    start = dict(zip(places, begun, strict=True))
    ends = {place: start[place] + count for place, count in zip(places, more, strict=True)}
    at_time = {place: (start[place] + ends[place]) // 2 for place in places}
    batches = 0
    while start != ends:
        made = plan_leading(LEADING, start, ends, limit, lambda time_ms: at_time)
        taken = sum(made.ends[place] - start[place] for place in places)
        assert all(start[place] <= made.ends[place] <= ends[place] for place in places)
        assert 0 < taken <= limit
        if made.ends[TARIFFS] < ends[TARIFFS]:
            assert all(made.ends[place] == start[place] for place in OTHERS)
            assert made.held >= {place for place in OTHERS if ends[place] > start[place]}, "they are waited for"
        start, batches = made.ends, batches + 1
    assert batches <= sum(more)


def test_where_they_end_is_asked_after_the_others() -> None:
    asked: list[list[TopicPartition]] = []

    def ask(places: list[TopicPartition]) -> dict[TopicPartition, int]:
        asked.append(places)
        return dict.fromkeys(places, len(asked))

    assert ends_asked(LEADING, [TARIFFS, *OTHERS], ask) == {OTHERS[0]: 1, OTHERS[1]: 1, TARIFFS: 2}
    assert asked == [OTHERS, [TARIFFS]]
    assert ends_asked(frozenset(), OTHERS, ask) == dict.fromkeys(OTHERS, 3)
