"""The shop of the demo, no line changed, on Apache Kafka, a cluster of Spark and PostgreSQL."""

import json
import subprocess
import sys

import pytest


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_the_demos_shop_runs_on_a_cluster_and_its_books_are_in_order() -> None:
    command = [sys.executable, "-m", "tests.cluster", "--for", "20s", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary = json.loads(ran.stdout.splitlines()[-1])
    assert summary["wrong"] == []
    assert summary["records"] > 0
    assert {"sales", "orders-priced", "too_warm"} <= summary["accounts"].keys()
    assert set(summary["views"].values()) <= {"proved", "rests on late rows"}
