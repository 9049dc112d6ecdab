"""What holds for all tests of queries."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from headwater.query import query
from tests.waiting import LONG


@pytest.fixture(autouse=True)
def no_limit_on_a_wall_clock() -> Iterator[None]:
    """A query may take as long as the test asks for, however busy the machine is."""
    with patch.object(query, "SECONDS_MAX", LONG):
        yield
