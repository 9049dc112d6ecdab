from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.windows.kinds.count import Count
from tests.flow.operators.windows.subjects import EXAMPLES, Batch, Life, batches_strategy, lives

counts = st.builds(Count, st.sampled_from([1, 2, 3]))
emissions = st.sampled_from([{"emit": "updates"}, {"emit": "final"}, {"emit": "final", "early": True}])


@settings(max_examples=EXAMPLES)
@given(lives(counts, emissions), batches_strategy)
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_that_are_settled(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)
