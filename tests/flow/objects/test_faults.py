"""A real S3 server on a bad day: calls are repeated, a swap that has happened is known to have, and where nothing helps
one sentence says so."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.errors import JobTakenOver, StateUnavailable
from headwater.flow.objects.bucket_objects import BucketObjects
from headwater.flow.objects.checkpoint import Checkpoint
from headwater.flow.objects.retries import RetriedObjects
from tests.servers.faulty_proxy import (
    CUT,
    SILENT,
    THROTTLED,
    UNANSWERED,
    UNAVAILABLE,
    FaultyProxy,
    faulty_proxy,
)

ALL = [UNAVAILABLE, THROTTLED, CUT, SILENT, UNANSWERED]


@pytest.fixture
def proxy(s3_endpoint: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3_endpoint) as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.endpoint)
        yield found


def objects(s3: str) -> RetriedObjects:
    bucket = BucketObjects(s3, timeout=timedelta(milliseconds=1500))
    return RetriedObjects(bucket, wait=lambda seconds: None)


@pytest.mark.parametrize("fault", ALL)
def test_a_read_is_repeated(s3: str, proxy: FaultyProxy, tmp_path: Path, fault: str) -> None:
    bucket = objects(s3)
    bucket.write("runs/a", b"x" * 300_000)
    proxy.faults = [fault]
    bucket.download("runs/a", tmp_path / "a")
    assert ((tmp_path / "a").read_bytes(), proxy.met) == (b"x" * 300_000, [f"GET {fault}"])


@pytest.mark.parametrize("fault", ALL)
def test_an_upload_is_repeated_and_whole(s3: str, proxy: FaultyProxy, tmp_path: Path, fault: str) -> None:
    bucket = objects(s3)
    (tmp_path / "a").write_bytes(b"x" * 300_000)
    proxy.faults = [fault]
    bucket.upload("runs/a", tmp_path / "a")
    assert (bucket.read("runs/a"), proxy.met) == (b"x" * 300_000, [f"PUT {fault}"])


@pytest.mark.parametrize("fault", ALL)
def test_a_commit_is_done_once(s3: str, proxy: FaultyProxy, fault: str) -> None:
    checkpoint = Checkpoint(objects(s3), "job")
    checkpoint.take("the driver")
    proxy.faults = [fault]
    checkpoint.commit({"a": 1})
    checkpoint.commit({"b": 2})
    again = Checkpoint(objects(s3), "job")
    assert (again.read("a"), again.read("b"), proxy.met) == (1, 2, [f"PUT {fault}"])


def test_a_place_that_stays_away_is_one_sentence(s3: str, proxy: FaultyProxy) -> None:
    checkpoint = Checkpoint(objects(s3), "job")
    checkpoint.take("the driver")
    proxy.faults = [UNAVAILABLE] * 7
    with pytest.raises(
        StateUnavailable, match=r"^state file s3://.*/head.json cannot be reached: .*503.*\(7 attempts\)"
    ):
        checkpoint.commit({"a": 1})
    checkpoint.commit({"a": 2})
    assert Checkpoint(objects(s3), "job").read("a") == 2


def test_an_older_driver_is_refused_also_after_faults(s3: str, proxy: FaultyProxy) -> None:
    older, newer = Checkpoint(objects(s3), "job"), Checkpoint(objects(s3), "job")
    older.take("the older")
    newer.take("the newer")
    proxy.faults = [UNANSWERED, UNAVAILABLE]
    with pytest.raises(JobTakenOver, match="taken over by the newer at"):
        older.commit({"a": 1})
    assert newer.read("a") is None
