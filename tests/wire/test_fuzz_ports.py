"""The short form of fuzz_ports.py: hostile clients cost the node neither its life nor its memory."""

import json
from dataclasses import asdict

from tests.wire.fuzz_ports import fuzz

MEMORY_MIB = 256


def test_hostile_clients_cost_neither_the_node_nor_the_good_client() -> None:
    report = fuzz(operations=4_000, attackers=2, topics=60)
    said = json.dumps(asdict(report), indent=2)
    assert not report.problems, said
    assert report.operations == 4_000, said
    assert report.good_answers > 0, said
    assert report.growth_mib < MEMORY_MIB, said
