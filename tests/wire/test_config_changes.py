import pytest

from headwater.errors import InvalidSetting
from headwater.wire.config_changes import APPEND, DELETE, SET, SUBTRACT, Operation, changing, replacing


def test_replacing_brings_everything_that_is_not_named_back_to_its_default() -> None:
    assert replacing({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == {"a": None, "b": "3", "c": "4"}


@pytest.mark.parametrize(
    "rule, operation, value, outcome",
    [
        ("set gives a value", SET, "compact", "compact"),
        ("delete goes back to the default", DELETE, None, None),
        ("append adds to a list", APPEND, "compact", "delete,compact"),
        ("append of what is there changes nothing", APPEND, "delete", "delete"),
        ("subtract takes from a list", SUBTRACT, "delete", ""),
        ("subtract of what is not there changes nothing", SUBTRACT, "compact", "delete"),
    ],
)
def test_changing(rule: str, operation: int, value: str | None, outcome: str | None) -> None:
    changes = changing({"cleanup.policy": "delete"}, [Operation("cleanup.policy", operation, value)])
    assert changes == {"cleanup.policy": outcome}, rule


@pytest.mark.parametrize(
    "why, operations",
    [
        ("twice", [Operation("retention.ms", SET, "1"), Operation("retention.ms", DELETE, None)]),
        ("needs a value", [Operation("retention.ms", SET, None)]),
        ("only lists", [Operation("retention.ms", APPEND, "1")]),
        ("only lists", [Operation("cleanup.policy", 9, "compact")]),
        ("no topic setting", [Operation("no.such.thing", APPEND, "1")]),
    ],
)
def test_changes_that_make_no_sense_are_refused(why: str, operations: list[Operation]) -> None:
    with pytest.raises(InvalidSetting, match=why):
        changing({}, operations)
