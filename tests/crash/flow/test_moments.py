"""Moments name places in the code by text: a place that was moved or renamed would never be killed at."""

import functools
import importlib

import pytest

from tests.crash.flow import test_joins_as_read, test_late_replay, test_migrating, test_staged_outputs
from tests.crash.flow.moments import IN_WORKERS, POINTS

PLACES = sorted(
    {moment.place for moment in IN_WORKERS.values()}
    | {point.moment.place for point in POINTS.values()}
    | {
        moment.place
        for module in (test_joins_as_read, test_late_replay, test_migrating, test_staged_outputs)
        for moment, _ in module.MOMENTS.values()
    }
)


@pytest.mark.parametrize("place", PLACES)
def test_every_moment_is_at_a_place_that_there_is(place: str) -> None:
    module, _, name = place.partition(":")
    assert callable(functools.reduce(getattr, name.split("."), importlib.import_module(module)))
