"""In which order files of tests are run."""

from collections.abc import Callable, Sequence
from typing import TypeVar

FIRST = (
    "tests/demo/test_walk.py",
    "tests/crash/flow/test_killing.py",
    "tests/docs/test_pages.py",
    "tests/flow/job/test_any_aggregate.py",
    "tests/clients/test_membership.py",
    "tests/flow/job/test_as_of_dated.py",
    "tests/flow/job/test_taking_back.py",
    "tests/flow/job/test_chains.py",
    "tests/serve/test_dashboard.py",
    "tests/flow/job/test_statistics.py",
    "tests/flow/job/test_twenty_ways.py",
    "tests/flow/job/test_any_windows.py",
    "tests/crash/flow/test_late_replay.py",
    "tests/clients/test_groups.py",
    "tests/flow/job/test_behind_joins.py",
    "tests/capture/postgres/test_rows.py",
    "tests/flow/job/test_running.py",
    "tests/flow/job/test_comparing.py",
    "tests/capture/postgres/test_bursts.py",
    "tests/crash/damage/test_matrix.py",
    "tests/clients/test_million.py",
    "tests/cli/test_stop_signals.py",
)
"""Those that take longest, so that in the end no worker is alone with one of them. Files that mostly wait (for a clock,
a rebalance, a browser) stand between files that mostly compute: so there is something to do while they wait."""

WARMING = "tests/flow/job/test_aligned_replay.py"
"""Its short tests have nearly all that is compiled for machines compiled, without Spark."""

Item = TypeVar("Item")


def longest_first(items: Sequence[Item], file_of: Callable[[Item], str]) -> list[Item]:
    """
    >>> longest_first(["tests/alerts/test_email.py", "tests/docs/test_pages.py"], str)
    ['tests/docs/test_pages.py', 'tests/alerts/test_email.py']
    """
    ranks = {name: index for index, name in enumerate(FIRST)}
    return sorted(items, key=lambda item: ranks.get(file_of(item), len(FIRST)))
