from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.windows.kinds.hopping import Hopping
from tests.flow.operators.windows.subjects import EXAMPLES, Batch, Life, batches_strategy, lives

hopping = st.builds(Hopping, st.sampled_from([4, 6, 10]), st.sampled_from([2, 3, 5, 10, 14]), st.integers(0, 3))


@settings(max_examples=EXAMPLES)
@given(lives(hopping), batches_strategy)
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_accepted_so_far(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)
