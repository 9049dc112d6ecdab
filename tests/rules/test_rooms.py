"""A folder of flows that has many modules lacks a room: what belongs together is hard to find in it."""

from tests.rules.source import ROOT

MODULES_MAX = 15


def test_no_folder_of_flows_has_more_than_fifteen_modules() -> None:
    flow = ROOT / "src" / "headwater" / "flow"
    folders = [flow, *(one for one in flow.rglob("*") if one.is_dir())]
    counts = {str(one.relative_to(flow)): len([*one.glob("*.py")]) - 1 for one in folders}
    assert {name: count for name, count in counts.items() if count > MODULES_MAX} == {}
