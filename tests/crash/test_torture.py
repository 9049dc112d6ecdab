import json

import pytest

from tests.crash import torture


@pytest.fixture
def nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("explore", "fail", "kill", "kill_jobs", "kill_captures"):
        monkeypatch.setattr(torture, part, lambda report, wanted, advance: advance(wanted))
    monkeypatch.setattr(torture, "run_large", lambda report, rows, rows_with_broken, begin: begin("rows", rows)(rows))


def test_what_is_promised_for_a_release_is_what_it_does_unasked() -> None:
    wanted = torture.parse([])
    assert (wanted.crash_points, wanted.rounds, wanted.job_rounds) == (20_000, 200, 60)
    assert wanted.capture_rounds == 100
    assert (wanted.large_rows, wanted.large_rows_with_broken) == (5_000_000, 1_000_000)


@pytest.mark.usefixtures("nothing_happens")
def test_no_anomaly_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert torture.main(["--seed", "5"]) == 0
    assert "0 anomalies" in capsys.readouterr().out


@pytest.mark.usefixtures("nothing_happens")
def test_any_anomaly_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torture, "kill", lambda report, wanted, advance: report.anomalies.append("a record is lost"))
    assert torture.main([]) == 1
    assert "a record is lost" in capsys.readouterr().out


@pytest.mark.usefixtures("nothing_happens")
def test_the_report_can_be_had_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    torture.main(["--json", "--seed", "5"])
    report = json.loads(capsys.readouterr().out)
    assert report["seed"] == 5
    assert report["anomalies"] == []


def test_a_few_calls_that_fail(capsys: pytest.CaptureFixture[str]) -> None:
    others = ("crash-points", "rounds", "job-rounds", "capture-rounds", "large-rows", "large-rows-with-broken")
    nothing_else = [f"--{other}=0" for other in others]
    assert torture.main(["--failures", "3", *nothing_else, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"] == 3
