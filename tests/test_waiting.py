"""Patience ends for what hangs, and never for what is only slow."""

import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

from tests.waiting import Clock, Deadline, Look, look, stood_still_s, wait_until


def looks(*seen: tuple[float, float, bool]) -> list[float]:
    """What a clock says after each of these looks."""
    found = [Look(*one) for one in seen]
    return [round(stood_still_s(one, other), 3) for one, other in pairwise(found)]


def test_real_time_counts_while_nothing_makes_progress() -> None:
    assert looks((0, 5, False), (0.5, 5, False), (1.0, 5.01, False)) == [0.5, 0.5]


def test_no_time_counts_while_a_thread_waits_for_a_processor() -> None:
    assert looks((0, 5, True), (30, 5, True), (90, 5.0, True)) == [0, 0]


def test_a_tenth_of_the_processor_time_counts_so_that_circles_end() -> None:
    assert looks((0, 5, True), (0.5, 5.5, True), (1.0, 6.5, False)) == [0.05, 0.1]


def test_one_that_looks_late_was_not_let_run_and_counts_little() -> None:
    assert looks((0, 5, False), (60, 5, False)) == [1.0]


def test_a_clock_does_not_go_back_when_a_child_ends() -> None:
    seen = iter([Look(0, 9, False), Look(0.5, 4, False), Look(1.0, 4, False)])
    clock = Clock(lambda before: next(seen))
    assert [clock(), clock(), clock()] == [0.0, 0.5, 1.0]


def test_a_child_that_computes_is_progress_and_one_that_sleeps_is_none() -> None:
    for program, busy in (("while True: pass", True), ("import time; time.sleep(600)", False)):
        child = subprocess.Popen([sys.executable, "-c", program])
        try:
            wait_until(lambda child=child, busy=busy: _computes(child.pid) == busy, "it is started")  # type: ignore[misc]
            assert _computes(child.pid) == busy
        finally:
            child.kill()
            child.wait()


def _computes(process: int) -> bool:
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "R"


def test_what_is_looked_at_is_this_process_and_its_children() -> None:
    before = look().cpu_s
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert look().cpu_s > before


def test_what_has_used_a_processor_since_the_last_look_is_at_work() -> None:
    idle = look()
    assert look(Look(idle.at_s, idle.cpu_s - 1, False)).ready


def test_a_deadline_passes_where_nothing_makes_progress() -> None:
    deadline, nothing = Deadline(0.2), threading.Event()
    while not deadline.passed:
        nothing.wait(0.05)


HANGING = """
import signal
import threading
def test_that_programs_can_be_interrupted():
    assert signal.getsignal(signal.SIGINT) != signal.SIG_IGN
from itertools import pairwise
def test_that_hangs():
    threading.Event().wait()
def test_after_it():
    pass
"""


def test_a_test_that_hangs_is_ended_with_a_sentence_and_the_next_one_runs(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "conftest.py").write_text(
        (root / "conftest.py").read_text() + "\n\nimport tests.watchdog\ntests.watchdog.LIMIT_SECONDS = 2.0\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:timeout"]
    ran = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=root, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(root)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as in the background of a shell
    )  # fmt: skip
    assert "test_that_hangs hangs: no progress for 2 s" in ran.stdout, ran.stdout + ran.stderr
    assert "1 failed, 2 passed" in ran.stdout
