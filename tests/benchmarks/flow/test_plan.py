from benchmarks.flow.plan import QUICK, SECTIONS, FlowPlan
from benchmarks.plan import SECTIONS as ALL_SECTIONS


def test_a_plan_survives_the_way_to_another_process() -> None:
    for plan in (FlowPlan(), QUICK):
        assert FlowPlan.from_json(plan.to_json()) == plan


def test_every_section_can_be_asked_for() -> None:
    assert set(SECTIONS) <= set(ALL_SECTIONS)
