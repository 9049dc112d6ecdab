from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.windows.shapes import Sliding
from tests.flow.operators.windows.subjects import EXAMPLES, Batch, Life, batches_strategy, lives

sliding = st.builds(Sliding, st.sampled_from([1, 5, 12]), st.booleans())


@settings(max_examples=EXAMPLES)
@given(lives(sliding), batches_strategy)
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_accepted_so_far(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)
