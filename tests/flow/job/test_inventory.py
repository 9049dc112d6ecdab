from pathlib import Path

import pytest

from headwater.errors import FlowError
from headwater.flow.deploy.inventory import chosen, jobs_in
from headwater.flow.state.store import StateStore
from tests.flow.job.kept_jobs import damage, kept_job


def test_jobs_are_found_by_their_folders(tmp_path: Path) -> None:
    kept_job(tmp_path, "shop", "orders")
    kept_job(tmp_path, "web", "clicks+searches")
    (tmp_path / "flows" / "web" / "not-a-job").mkdir()
    assert [str(job) for job in jobs_in(tmp_path)] == ["shop.orders", "web.clicks+searches"]
    assert jobs_in(tmp_path / "nowhere") == []


def test_a_name_chooses_an_app_a_job_or_an_operator(tmp_path: Path) -> None:
    kept_job(tmp_path, "shop", "orders")
    kept_job(tmp_path, "shop", "orders.eu")
    every = ["shop.orders.counts", "shop.orders.newest", "shop.orders.eu.counts", "shop.orders.eu.newest"]
    assert [str(one) for one in chosen(tmp_path, "")[1]] == every
    assert [str(one) for one in chosen(tmp_path, "shop")[1]] == every
    assert [str(one) for one in chosen(tmp_path, "shop.orders")[1]] == every[:2]
    assert [str(one) for one in chosen(tmp_path, "shop.orders.eu.counts")[1]] == [every[2]]


def test_a_name_that_is_nowhere_is_refused_with_those_there_are(tmp_path: Path) -> None:
    kept_job(tmp_path)
    with pytest.raises(
        FlowError, match=r"no app, job or operator shp in .*\. There are: shop\.orders, shop\.orders\.c"
    ):
        chosen(tmp_path, "shp")


def test_the_last_batch_tells_when_it_ended_and_how_long_it_took(tmp_path: Path) -> None:
    job = kept_job(tmp_path)
    last = job.last_batch()
    assert last is not None
    assert last.record.batch == 1
    assert last.seconds == (last.finished_ms - 1_700_000_000_000) / 1000


def test_a_job_that_has_not_finished_a_batch_has_no_last_one(tmp_path: Path) -> None:
    job = kept_job(tmp_path)
    for file in (job.path / "batches").glob("*"):
        file.unlink()
    assert job.last_batch() is None


def test_sound_state_has_no_problems(tmp_path: Path) -> None:
    assert [operator.check() for operator in kept_job(tmp_path).operators()] == [[], []]


def test_damage_is_told_with_its_file(tmp_path: Path) -> None:
    job = kept_job(tmp_path)
    file = damage(job, "counts")
    counts, newest = job.operators()
    (problem, *_) = counts.check()
    assert file.name in problem
    assert newest.check() == []


def test_a_file_that_a_running_job_removes_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = kept_job(tmp_path).operators()[0]
    answers = iter([["version 0: run x is missing"], []])
    monkeypatch.setattr(StateStore, "check", lambda store: next(answers))
    assert counts.check() == []


def test_the_key_of_an_operator_is_read_from_its_newest_version(tmp_path: Path) -> None:
    assert kept_job(tmp_path).operators()[0].key() == ["name", "part"]
