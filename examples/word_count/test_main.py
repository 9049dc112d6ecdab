from pathlib import Path

from examples.word_count.main import run


def test_a_second_run_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    assert run(str(tmp_path), ["to be", "or not to be"])["be"] == 2
    assert run(str(tmp_path), ["that is the question"])["be"] == 2
    assert run(str(tmp_path), ["be"])["be"] == 3
