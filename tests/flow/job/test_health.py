"""How a job is, in a file that outlives its process."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.commit.job_identity import FILE as IDENTITY
from headwater.flow.declare.retries import Retries
from headwater.flow.deploy import damage_check as check
from headwater.flow.run import health as files
from headwater.flow.run.health import FILE, HealthFile, condition_of, problems_in, read_health
from headwater.flow.run.supervision import Event, Failure, Health, State, Warned
from headwater.small_file import copy_path

COPY = copy_path(FILE)
DOWN = Failure("StoreUnavailable", "the database does not answer")

HOLDER = """
import sys, time
from pathlib import Path
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.run.health import HealthFile
folder = JobFolder(Path(sys.argv[1]))
folder.lock()
file = HealthFile(folder.path)
file.write(file.read().begun())
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "flows" / "shop" / "orders"
    folder.mkdir(parents=True)
    (folder / IDENTITY).write_text("{}")
    return folder


def test_what_is_written_is_read_by_others(job: Path) -> None:
    file = HealthFile(job)
    failing = file.read().begun().failed(DOWN, Retries(), 5)
    assert file.write(failing) == ""
    assert read_health(job) == failing
    assert failing.process == os.getpid()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"state": "asleep"}', b"\x00" * 100])
def test_a_damaged_file_says_nothing(job: Path, content: bytes) -> None:
    (job / FILE).write_bytes(content)
    assert read_health(job) is None
    assert condition_of(job).state == State.STOPPED
    (problem,) = problems_in(job.parents[2])
    assert problem["kind"] == "warning"
    assert f"{job / FILE} is damaged" in problem["text"]


def test_a_job_that_has_not_run_has_no_problem(job: Path) -> None:
    assert read_health(job) is None
    assert problems_in(job.parents[2]) == []


@pytest.mark.parametrize("place", range(0, files.ROOM_BYTES, files.ROOM_BYTES // 12))
@pytest.mark.parametrize("name", [FILE, COPY])
def test_a_flipped_bit_in_one_of_both_files_is_named_and_changes_nothing(job: Path, name: str, place: int) -> None:
    failing = _has_run(job)
    content = bytearray((job / name).read_bytes())
    content[place] ^= 0x04
    (job / name).write_bytes(content)
    assert read_health(job) == failing
    assert [one for one in check.problems(job.parents[2]) if name in one] != []


@pytest.mark.parametrize("name", [FILE, COPY])
def test_one_of_both_files_that_is_deleted_is_named_and_changes_nothing(job: Path, name: str) -> None:
    failing = _has_run(job)
    (job / name).unlink()
    assert read_health(job) == failing
    assert [one for one in check.problems(job.parents[2]) if f"orders/{name}" in one] != []


def test_without_both_files_a_job_that_has_run_is_named(job: Path) -> None:
    _has_run(job)
    assert [one for one in check.problems(job.parents[2]) if FILE in one] == []
    (job / FILE).unlink()
    (job / COPY).unlink()
    assert f"{job / FILE} is missing, and job shop.orders has finished batches" in check.problems(job.parents[2])


def test_a_job_of_a_release_that_kept_no_health_lacks_nothing(job: Path) -> None:
    _has_run(job)
    (job / FILE).unlink()
    (job / COPY).unlink()
    (job / "batches" / "0.copy").unlink()
    (job / "batches" / "0.json").write_text(json.dumps(BatchRecord(0, {}, {}, {}).to_json()))
    assert [one for one in check.problems(job.parents[2]) if FILE in one] == []


def _has_run(job: Path) -> Health:
    """A job with a finished batch, that then failed."""
    JobFolder(job).finish(BatchRecord(0, {}, {}, {}))
    file = HealthFile(job)
    assert file.write(file.read().begun()) == ""
    failing = file.read().failed(DOWN, Retries(), 5)
    assert file.write(failing) == ""
    return failing


def test_on_a_full_disk_the_reason_goes_into_the_room_that_the_file_has(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = HealthFile(job)
    file.write(file.read().begun())
    size = (job / FILE).stat().st_size

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_replace", full)
    assert file.write(file.read().failed(DOWN, Retries(), 5)) == ""
    assert (job / FILE).read_bytes() == (job / COPY).read_bytes()
    found = read_health(job)
    assert found is not None
    assert found.trouble is not None
    assert found.trouble.reason == DOWN.reason
    assert (job / FILE).stat().st_size == size
    (job / FILE).unlink()
    assert "cannot be written" in file.write(found)


def test_the_longest_reason_and_all_warnings_fit_into_that_room(job: Path) -> None:
    file = HealthFile(job)
    file.write(Health())
    size = (job / FILE).stat().st_size
    health = Health().begun().failed(Failure("FlowError", "🜨" * 100_000), Retries(), 5)
    for number in range(100):
        health = health.warned(Warned("topic", f"{number} " + "🜨" * 10_000, number))
    file.write(health)
    assert (job / FILE).stat().st_size == size


def test_a_driver_that_was_killed_is_not_shown_as_running(job: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(job)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    assert condition_of(job).state == State.RUNNING
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    shown = condition_of(job)
    assert shown.state == State.FAILED
    assert f"process {process.pid}" in shown.reason
    (problem,) = problems_in(job.parents[2])
    assert (problem["flow"], problem["kind"]) == ("shop.orders", "failed")


def test_where_locks_cannot_be_seen_a_touch_shows_that_the_process_lives(job: Path) -> None:
    health = HealthFile(job).read().begun().to_json()
    (job / FILE).write_text(json.dumps({**health, "namespace": "another container"}))
    assert condition_of(job).state == State.RUNNING
    past = time.time() - 60
    os.utime(job / FILE, (past, past))
    assert condition_of(job).state == State.FAILED


def test_problems_are_failures_and_the_warnings_of_what_runs(tmp_path: Path, job: Path) -> None:
    folder = JobFolder(job)
    folder.lock()
    file = HealthFile(job)
    running = file.read().begun().warned(Warned("topic", "topic ordres was made", 7))
    file.write(running)
    assert [(one["kind"], one["text"]) for one in problems_in(tmp_path)] == [("warning", "topic ordres was made")]
    file.write(running.failed(DOWN, Retries(), 9))
    assert [one["kind"] for one in problems_in(tmp_path)] == ["retrying", "warning"]
    assert problems_in(tmp_path, "another-app") == []
    folder.unlock()
    file.write(running.after(Event.STOPPED))
    assert problems_in(tmp_path) == []
