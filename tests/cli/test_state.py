from pathlib import Path

import pytest

from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.deploy.inventory import KeptJob, KeptOperator
from tests.cli.conftest import Terminal
from tests.flow.job.kept_jobs import COUNTS, NEWEST, contents, damage, kept_job


@pytest.fixture
def job(terminal: Terminal) -> KeptJob:
    return kept_job(terminal.data)


def test_the_newest_version_of_every_operator_is_shown(terminal: Terminal, job: KeptJob) -> None:
    said = terminal.type("state", "show")
    header, *lines = [line.split() for line in said.output.splitlines()]
    assert header == ["operator", "version", "shards", "keys", "bytes", "runs"]
    assert [line[:4] for line in lines] == [
        ["shop.orders.counts", "1", "2", str(len(COUNTS))],
        ["shop.orders.newest", "1", "2", str(len(NEWEST))],
    ]


def test_one_operator_is_shown_with_all_its_versions(terminal: Terminal, job: KeptJob) -> None:
    lines = terminal.type("state", "show", "shop.orders.counts").output.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["0", "1"]


def test_scripts_get_every_version_with_its_shards(terminal: Terminal, job: KeptJob) -> None:
    counts, newest = terminal.type("state", "show", "shop", "--json").json
    assert (counts["app"], counts["job"], counts["operator"]) == ("shop", "orders", "counts")
    assert counts["columns"][:2] == ["name string", "part int32"]
    assert [version["version"] for version in newest["versions"]] == [0, 1]
    assert sum(shard["keys"] for shard in newest["versions"][1]["shards"]) == len(NEWEST)


def test_a_row_is_found_by_its_key(terminal: Terminal, job: KeptJob) -> None:
    words = ("state", "show", "shop.orders.counts", "--json", "--key", "key 3", "3")
    assert terminal.type(*words).json == [{"name": "key 3", "part": 3, "n": 30, "tags": [{"t": 30}]}]


def test_columns_that_only_put_the_rows_of_a_join_in_order_are_not_asked_for(
    terminal: Terminal, job: KeptJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeptOperator, "key", lambda self: ["name", "_row"])
    found = terminal.type("state", "show", "shop.orders.counts", "--json", "--key", "key 3").json
    assert [row["n"] for row in found] == [30]


def test_a_key_that_is_not_there_is_no_row_and_exit_code_1(terminal: Terminal, job: KeptJob) -> None:
    said = terminal.type("state", "show", "shop.orders.counts", "--json", "--key", "key 3", "99")
    assert (said.code, said.json) == (1, [])


def test_some_rows_are_shown_if_asked(terminal: Terminal, job: KeptJob) -> None:
    said = terminal.type("state", "show", "shop.orders.counts", "--limit", "4")
    assert len(said.output.splitlines()) == 5


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("show", "shp"), "there is no app, job or operator shp in "),
        (
            ("show", "shop", "--limit", "3"),
            "rows are shown of one operator: name it as APP.JOB.OPERATOR. There are: shop.",
        ),
        (("show", "shop.orders.counts", "--key", "3"), "the key of shop.orders.counts has 2 columns: name, part."),
        (("show", "shop.orders.counts", "--key", "a", "b"), "'a b' cannot be a key of shop.orders.counts: "),
        (("check", "shop.order"), "there is no app, job or operator shop.order in "),
        (("reshard", "shop", "--shards", "4"), "no job shop has run on "),
        (
            ("show", "--data", "elsewhere"),
            "there is no data directory elsewhere. Say where the data is with --data DIR.",
        ),
    ],
)
def test_a_mistake_is_one_sentence(terminal: Terminal, job: KeptJob, words: tuple[str, ...], sentence: str) -> None:
    said = terminal.type("state", *words)
    assert said.code == 1
    assert said.output == ""
    assert said.errors.startswith(f"headwater: {sentence}")
    assert said.errors.count("\n") == 1


def test_no_state_is_said_in_words(terminal: Terminal) -> None:
    terminal.data.mkdir()
    assert "there is no state in" in terminal.type("state", "show").output


def test_sound_state_is_said_to_be_sound(terminal: Terminal, job: KeptJob) -> None:
    said = terminal.type("state", "check")
    assert (said.code, said.output) == (0, "4 versions of 2 operators checked: everything is sound\n")
    assert terminal.type("state", "check", "--json").json == {
        "sound": True,
        "operators": 2,
        "versions": 4,
        "problems": [],
    }


def test_damage_is_reported_in_sentences_and_is_exit_code_1(terminal: Terminal, job: KeptJob) -> None:
    file = damage(job, "newest")
    said = terminal.type("state", "check")
    assert said.code == 1
    first, *_, last = said.output.splitlines()
    assert first.startswith("shop.orders.newest: version ")
    assert file.name in first
    assert "found" in last
    assert terminal.type("state", "check", "shop.orders.counts").code == 0


def test_resharding_says_what_it_did(terminal: Terminal, job: KeptJob) -> None:
    said = terminal.type("state", "reshard", "shop.orders", "--shards", "8")
    assert said.output == "job shop.orders has 8 shards now, and had 2: state of 2 operators rewritten\n"
    assert contents(job) == {"counts": COUNTS, "newest": NEWEST}
    again = terminal.type("state", "reshard", "shop.orders", "--shards", "8")
    assert again.output == "job shop.orders has 8 shards already\n"
    assert terminal.type("state", "reshard", "shop.orders", "--shards", "1", "--json").json == {
        "app": "shop", "job": "orders", "before": 8, "after": 1, "operators": ["counts", "newest"],
    }  # fmt: skip


def test_damaged_state_is_not_resharded(terminal: Terminal, job: KeptJob) -> None:
    damage(job, "counts")
    said = terminal.type("state", "reshard", "shop.orders", "--shards", "8")
    assert said.code == 1
    assert "is damaged" in said.errors


def test_a_running_job_is_not_resharded(terminal: Terminal, job: KeptJob) -> None:
    running = JobFolder(Path(job.path))
    running.lock()
    said = terminal.type("state", "reshard", "shop.orders", "--shards", "8")
    running.unlock()
    assert said.code == 1
    assert "is being run by process" in said.errors


def test_a_number_of_shards_that_is_no_power_of_two_is_a_mistake_in_typing(terminal: Terminal, job: KeptJob) -> None:
    said = terminal.type("state", "reshard", "shop.orders", "--shards", "6")
    assert said.code == 2
    assert "'6' is not a power of two, such as 1, 2, 4 or 8" in said.errors
