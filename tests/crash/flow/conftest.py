"""What runs the jobs of tests that kill nothing of Spark's (tests/flow/engines.py)."""

import pytest

from tests.flow.engines import Engine, engine_for


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    return engine_for(request)
