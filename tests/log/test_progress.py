"""Who sees what when: the rule that moves a partition's marks."""

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.progress import Progress
from headwater.log.segment import Segment
from headwater.log.snapshot import Mark

SEGMENT = cast(Segment, object())
EVENTS = st.lists(st.sampled_from(["durable", "at once", "sync begins", "sync ends"]), max_size=40)


def mark(offset: int) -> Mark:
    return Mark(offset, SEGMENT, 100 * offset)


def test_what_need_not_be_durable_is_seen_at_once():
    progress = Progress(mark(0))
    progress.appended(mark(1), durable=False)
    assert (progress.visible.offset, progress.durable.offset) == (1, 0)


def test_what_must_be_durable_is_seen_after_its_sync():
    progress = Progress(mark(0))
    progress.appended(mark(1), durable=True)
    assert progress.visible.offset == 0
    progress.synced(mark(1))
    assert progress.visible.offset == 1


def test_nothing_overtakes_a_batch_that_waits_for_its_sync():
    progress = Progress(mark(0))
    progress.appended(mark(1), durable=True)
    progress.appended(mark(2), durable=False)
    assert progress.visible.offset == 0
    progress.synced(mark(1))
    assert progress.visible.offset == 2


def test_a_sync_shows_what_it_covers_and_no_more_while_others_wait():
    progress = Progress(mark(0))
    progress.appended(mark(1), durable=True)
    progress.appended(mark(2), durable=True)
    progress.synced(mark(1))
    assert progress.visible.offset == 1


def test_what_was_seen_stays_in_sight():
    progress = Progress(mark(0))
    progress.appended(mark(3), durable=False)
    progress.appended(mark(4), durable=True)
    progress.synced(mark(2))
    assert progress.visible.offset == 3


@given(events=EVENTS)
def test_readers_see_all_they_may_and_never_less_than_before(events: list[str]) -> None:
    progress = Progress(mark(0))
    appended: list[bool] = []  # must it be durable to be seen?
    syncing: Mark | None = None
    seen = durable = 0
    for event in events:
        match event:
            case "sync begins":
                syncing = syncing or progress.end
            case "sync ends" if syncing is not None:
                progress.synced(syncing)
                durable, syncing = syncing.offset, None
            case "durable" | "at once":
                appended.append(event == "durable")
                progress.appended(mark(len(appended)), durable=event == "durable")
        waiting = [offset for offset, must in enumerate(appended) if must and offset >= durable]
        visible = progress.visible.offset
        assert visible >= seen, "what was seen stays in sight"
        assert all(offset >= visible for offset in waiting), "nothing is seen that must be durable first"
        assert durable <= visible <= progress.end.offset == len(appended)
        assert visible == len(appended) or waiting
        assert progress.durable.offset == durable
        seen = visible
