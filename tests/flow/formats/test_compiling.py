import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.log.compiling import stamp_of

PROGRAM = """
import sys
import pyarrow as pa
from headwater.flow.formats.kernels import json_scan
from headwater.flow.formats.decoding import decoder_for
from headwater.flow.formats.schema import parse_ddl
decoder_for("json", parse_ddl("a int")).decode(pa.array([b'{"a":1}']))
print(sum(json_scan._scan_objects.stats.cache_hits.values()), sum(json_scan._scan_objects.stats.cache_misses.values()))
"""


def test_a_change_in_any_module_makes_compiled_code_old(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "two.py").write_text("2")
    before = stamp_of(tmp_path)
    assert stamp_of(tmp_path) == before
    (tmp_path / "two.py").write_text("22")
    assert stamp_of(tmp_path) != before


@pytest.mark.slow
def test_the_next_process_finds_compiled_code_on_disk(tmp_path: Path) -> None:
    def hits_and_misses() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert hits_and_misses() == "0 1"
    assert hits_and_misses() == "1 0"
