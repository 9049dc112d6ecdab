"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings

# Two busy cores make single examples slow without anything being wrong, so there is no deadline. The same examples run
# every time, so that a merge does not fail by luck; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("repeatable"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
