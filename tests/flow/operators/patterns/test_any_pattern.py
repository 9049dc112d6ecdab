"""Patterns are what a plain search finds, whatever the pattern, the rows, the batches and the crashes."""

import os

import pytest

from tests.flow.operators.patterns.any_pattern import run_case

CASES = int(os.environ.get("HEADWATER_PATTERNS", "100"))


@pytest.mark.parametrize("seed", range(CASES))
def test_any_pattern_finds_what_the_oracle_finds(seed: int) -> None:
    run_case(seed)
