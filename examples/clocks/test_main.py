from pathlib import Path

import pytest

from examples.clocks.main import compared, comparison_chart, false_spike, spike_chart

PICTURES = Path(__file__).parents[2] / "docs" / "guide" / "pictures"


@pytest.mark.timeout(400)
def test_the_guide_shows_what_is_drawn_here() -> None:
    counts = false_spike()
    assert {count for _, count in counts["by_event_time"]} == {60}
    assert [count for _, count in counts["by_processing_time"]] == [60, 60, 60, 60, 180, 60, 60, 60]
    assert spike_chart(counts).svg() == (PICTURES / "false-spike.svg").read_text()


@pytest.mark.timeout(400)
def test_one_hour_of_nine_days_is_odd() -> None:
    rows = compared()
    assert [row["window_start"].isoformat() for row in rows if row["odd"]] == ["2026-03-10T15:00:00+00:00"]
    assert comparison_chart(rows).svg() == (PICTURES / "comparisons.svg").read_text()
