import subprocess
import sys

from headwater.flow.formats.kernels.json_scan import __name__ as scanner
from headwater.flow.source.warming import warm_up
from headwater.log.record_columns import scan


def test_compiled_loops_are_loaded_afterwards() -> None:
    warm_up()
    assert scan.signatures


def test_a_process_that_was_warmed_up_has_the_slow_modules() -> None:
    program = "from headwater.flow.source.warming import warm_up; warm_up(); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"numba", "pyarrow", scanner} <= set(done.stdout.split())
