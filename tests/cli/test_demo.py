import re

from tests.cli.conftest import Terminal


def test_the_demo_ends_by_itself_and_every_record_arrived_once(terminal: Terminal) -> None:
    said = terminal.type("demo", "--for", "2s", "--no-browser")
    assert said.code == 0, said.errors
    assert re.search(
        r"[\d,]+ records stored; each group read all of its topics: nothing missing, nothing twice", said.output
    )
    assert "shop-warehouse" in said.output
    assert list(terminal.folder.iterdir()) == []


def test_the_demo_can_go_on_with_what_it_left(terminal: Terminal) -> None:
    assert terminal.type("demo", "--for", "1s", "--data", "shop").code == 0
    assert terminal.type("demo", "--for", "1s", "--data", "shop").code == 0
    assert (terminal.folder / "shop").is_dir()
