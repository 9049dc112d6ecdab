"""`headwater sql`, typed as a command: scripts, formats, and sentences where something is wrong."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headwater.views.mark import Mark
from tests.cli.conftest import Ran, Terminal
from tests.serve.shop import Shop, fill, open_shop


@pytest.fixture(scope="module")
def shared_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("shop") / "data") as opened:
        fill(opened)
        yield opened


@pytest.fixture
def shop(shared_shop: Shop, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A node for tests that write nothing to its view."""
    monkeypatch.setenv("HEADWATER_DATA", str(shared_shop.node.data))
    return shared_shop


@pytest.mark.usefixtures("shop")
def test_an_answer_is_a_table_with_its_position(terminal: Terminal) -> None:
    said = terminal.type("sql", "-c", "SELECT country, amount FROM revenue WHERE orders > 2 ORDER BY amount")
    assert (said.code, said.errors) == (0, "")
    assert said.output.splitlines() == [
        " country | amount",
        "---------+--------",
        " DE      |  12.50",
        " IT      | 100.10",
        "(2 rows · position orders/0@0)",
    ]


@pytest.mark.usefixtures("shop")
def test_scripts_get_json_and_csv(terminal: Terminal) -> None:
    sql = "SELECT country, orders FROM shop.revenue WHERE orders = 3"
    said = terminal.type("sql", "--json", "-c", sql).json
    assert said["rows"] == [{"country": "DE", "orders": 3}]
    assert said["position"] == said["views"]["shop.revenue"] == {"orders": {"0": 1}}
    assert terminal.type("sql", "--format", "csv", "-c", sql).output == "country,orders\nDE,3\n"
    assert "country | DE" in terminal.type("sql", "--format", "expanded", "-c", sql).output


@pytest.mark.usefixtures("shop")
def test_statements_come_from_arguments_files_and_standard_input(terminal: Terminal) -> None:
    (terminal.folder / "all.sql").write_text(
        "-- how many?\nSELECT count(*) AS n FROM revenue; \\d revenue\nSHOW TOPICS"
    )
    said = terminal.type("sql", "--json", "-c", "SELECT 1 AS one", "-f", "all.sql", "-f", "-", stdin="SELECT 2 AS two;")
    lines = [json.loads(line) for line in said.output.splitlines()]
    assert [line["rows"] for line in (lines[0], lines[1], lines[4])] == [[{"one": 1}], [{"n": 4}], [{"two": 2}]]
    assert lines[2][0] == {"column": "country", "type": "string", "key": True}
    assert lines[3] == [{"name": "orders", "partitions": 2, "records": 21, "bytes": lines[3][0]["bytes"]}]
    assert terminal.type("sql", "--json", stdin="SELECT 3 AS three").json["rows"] == [{"three": 3}]


@pytest.mark.usefixtures("shop")
def test_explain_says_what_is_read(terminal: Terminal) -> None:
    said = terminal.type("sql", "-c", "EXPLAIN SELECT amount FROM revenue WHERE orders > 2").output
    assert "shop.revenue (amount, orders), where orders > 2" in said


@pytest.mark.usefixtures("shop")
def test_what_there_is_is_shown(terminal: Terminal) -> None:
    said = terminal.type("sql", "-c", "SHOW VIEWS; SHOW POSITIONS; SHOW FLOWS; SHOW CAPTURES; SHOW ALERTS; \\?")
    assert said.code == 0
    assert "shop.revenue | country | country, amount, orders" in said.output
    assert "shop.revenue | orders/0@0" in said.output
    assert "\\position auto" in said.output


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["-c", "SELECT amont FROM revenue"], 'line 1, column 8: there is no column "amont". Did you mean "amount"?'),
        (["-c", "SELECT * FROM revenu"], 'there is no view "revenu". Did you mean "revenue"?'),
        (["-c", "DELETE FROM revenue"], "DELETE cannot be asked here"),
        (["-c", "\\d nothing"], 'there is no view "nothing"'),
        (["-c", "\\nothing"], "there is no command \\nothing. See \\?"),
        (["-c", "\\limit"], "\\limit needs one word"),
        (["-c", "\\limit none"], "'none' is no limit"),
        (["-c", "\\format none"], "there are table, expanded, csv, json"),
        (["-c", "\\timeout 5"], "'5' is not a duration"),
        (["-c", "\\position here"], "there are auto, one, own"),
        (["-c", "SHOW ME"], "'SHOW ME' shows nothing; there are SHOW VIEWS"),
        (["-c", "SELECT 1", "--at-least", "orders"], "is no position; write TOPIC/PARTITION@OFFSET"),
        (["-c", "SELECT * FROM revenue", "--at-least", "orders/0@999", "--timeout", "50ms"], "has not reached"),
        (["-c", "SELECT 1", "--timeout", "2m"], "2m is no timeout; say up to 60s"),
        (["-c", "SELECT 1", "--limit", "100001"], "--limit 100001 is too many"),
        (["-c", "SUBSCRIBE TO revenue", "--limit", "2"], "the result has more than 2 rows"),
        (["-c", "SELECT 1", "--http", "127.0.0.1:8080"], "is not a URL, such as http://127.0.0.1:8080"),
        (["-c", "SELECT 1", "--http", "http://127.0.0.1:1"], "the node does not answer as one: Connection refused"),
        (["-f", "nothing.sql"], "No such file or directory: nothing.sql"),
        (["-c", "SELECT 1", "--data", "nowhere"], "there is no data directory nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_on_standard_error(
    terminal: Terminal, shop: Shop, words: list[str], sentence: str
) -> None:
    said = terminal.type("sql", *words)
    assert (said.code, said.output) == (1, "")
    assert sentence in said.errors
    assert said.errors.count("\n") == 1
    assert "Traceback" not in said.errors


@pytest.mark.usefixtures("shop")
def test_the_first_mistake_ends_a_script(terminal: Terminal) -> None:
    said = terminal.type("sql", "--format", "csv", "-c", "SELECT 1 AS a; SELECT b FROM revenue; SELECT 2 AS c")
    assert (said.code, said.output) == (1, "a\n1\n")


def test_another_port_than_that_of_a_node_is_a_sentence(terminal: Terminal, shop: Shop) -> None:
    said = terminal.type("sql", "-c", "SELECT 1", "--http", f"http://{shop.node.kafka_address}")
    assert (said.code, said.output) == (1, "")
    assert "the node does not answer as one" in said.errors
    assert "Traceback" not in said.errors


def test_what_stands_in_a_row_does_not_reach_the_terminal_as_it_is(terminal: Terminal, shop: Shop) -> None:
    said = terminal.type("sql", "-c", "SELECT concat(chr(27), ']0;owned', chr(7), chr(155), '2J', chr(8238)) AS title")
    assert "\\x1b]0;owned\\x07\\x9b2J\\u202e" in said.output
    assert not set("\x1b\x07\x9b\u202e") & set(said.output)


def test_a_query_is_followed_until_nothing_changes(terminal: Terminal, shop: Shop) -> None:
    said = terminal.type(
        "sql", "--quiet-for", "50ms", "-c", "SUBSCRIBE TO (SELECT country FROM revenue WHERE orders = 3)"
    )
    assert said.output.splitlines() == ["-- + is added, - is removed: country", "+ DE"]
    lines = terminal.type("sql", "--quiet-for", "50ms", "--json", "-c", "SUBSCRIBE TO revenue").output.splitlines()
    assert {json.loads(line)["op"] for line in lines[:4]} == {"insert"}
    assert json.loads(lines[4])["progress"] == {"orders": {"0": 1}}


def test_views_without_a_node_are_asked_of_one_that_lives_as_long_as_the_command(terminal: Terminal) -> None:
    with open_shop(terminal.data) as own:
        fill(own)
    said = terminal.type("sql", "--json", "-c", "SELECT count(*) AS n FROM revenue")
    assert said.json["rows"] == [{"n": 4}]


# Several views


def write(shop: Shop, view: str, job: str, batch: int, position: dict[str, dict[int, int]], n: int) -> None:
    """A view of its own for each test."""
    rows = pa.table({"id": [1], "n": [n]})
    if batch == 0:
        shop.store.prepare(view, rows.schema, ["id"])
    shop.store.write(view, Mark(job, batch, position), rows)


def ask_both(terminal: Terminal, first: str, second: str, *words: str) -> Ran:
    sql = f"SELECT a.n AS paid, b.n AS received FROM {first} AS a JOIN {second} AS b USING (id)"
    return terminal.type("sql", "--json", "-c", sql, "--timeout", "60s", *words)


def test_views_at_different_positions_are_not_mixed_unless_that_is_asked_for(terminal: Terminal, shop: Shop) -> None:
    write(shop, "paid", "shop.a", 0, {"moves": {0: 5}}, 5)
    write(shop, "received", "shop.b", 0, {"moves": {0: 4}}, 4)
    said = ask_both(terminal, "paid", "received", "--timeout", "100ms")
    assert (said.code, said.output) == (1, "")
    assert "has not reached one position" in said.errors
    assert "--position own" in said.errors
    own = ask_both(terminal, "paid", "received", "--position", "own").json
    assert (own["rows"], own["position"]) == ([{"paid": 5, "received": 4}], None)
    write(shop, "received", "shop.b", 1, {"moves": {0: 5}}, 5)
    one = ask_both(terminal, "paid", "received").json
    assert (one["rows"], one["position"]) == ([{"paid": 5, "received": 5}], {"moves": {"0": 5}})


def test_views_that_share_no_topic_are_read_each_at_its_own_position_with_a_note(
    terminal: Terminal, shop: Shop
) -> None:
    write(shop, "here", "shop.c", 0, {"moves": {0: 5}}, 5)
    write(shop, "there", "shop.d", 0, {"others": {0: 4}}, 4)
    said = ask_both(terminal, "here", "there")
    assert said.json["rows"] == [{"paid": 5, "received": 4}]
    assert "they read different topics" in said.errors
    assert "each was read at its own position" in said.errors
    refused = ask_both(terminal, "here", "there", "--position", "one")
    assert (refused.code, refused.output) == (1, "")
