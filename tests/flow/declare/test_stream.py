import re
from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology import nodes

HERE = r"test_stream\.py:\d+"


def orders() -> Stream:
    return hw.App("shop").stream("orders", "id string, tags array<string>, amount long, at timestamp", time="at")


def users() -> Table:
    return hw.App("shop").table("users", "id string, name string", key="id")


def compared_twice() -> Table:
    left, right = users(), orders().latest("id")
    return left.join(right, on=(left.id == right.id) & (left.id == right.at))


@pytest.mark.parametrize(
    "build, sentence",
    [
        (lambda: orders().select(), rf"select\(\) at {HERE} needs at least one column"),
        (lambda: orders().by(), rf"by\(\) at {HERE} needs names of columns\. Make a column first .*"),
        (lambda: orders().by(object()), rf"by\(\) at {HERE} needs names of columns\. Make a column first .*"),  # type: ignore[arg-type]
        (lambda: orders().by("id", "id"), rf"by\(\) at {HERE} names column id twice\. Once is enough\."),
        (
            lambda: orders().by("id").agg(hw.percentile("amount", 0.5, exact=True)),
            rf"an exact percentile \({HERE}\) of a stream would need all its values for ever\. Leave out .*",
        ),
        (
            lambda: users().lag("name", order="id", into="before", offset=0),
            rf"lag\(\) at {HERE} has offset 0\. It is a whole number, at least 1\.",
        ),
        (
            compared_twice,
            rf"join\(\) at {HERE} compares column id of the left twice\. Once is enough; .*",
        ),
        (lambda: orders().by("id").agg(), rf"agg\(\) at {HERE} needs at least one column"),
        (lambda: orders().latest(), rf"latest\(\) at {HERE} needs names of columns\. .*"),
        (lambda: orders().dedupe("id", within="a while"), rf"'a while' \({HERE}\) is not a duration\. .*"),
        (
            lambda: orders().with_columns(_shard="1"),
            rf"with_columns\(\) at {HERE} makes column _shard, and names that begin with _ are reserved\. Give it .*",
        ),
        (
            lambda: users().with_columns(_op="1"),
            rf"with_columns\(\) at {HERE} makes column _op, and names that begin with _ are reserved\. Give it .*",
        ),
        (
            lambda: orders().explode("tags", "_tag"),
            rf"explode\(\) at {HERE} makes column _tag, and names that begin with _ are reserved\. Give it .*",
        ),
        (
            lambda: orders().union(users()),  # type: ignore[arg-type]
            rf"union\(\) at {HERE} is given a Table\. A stream is united with streams; .*",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        build()
    assert re.fullmatch(sentence, str(caught.value)), str(caught.value)


def test_a_step_makes_a_new_stream_and_leaves_the_old_as_it_was() -> None:
    before = orders()
    after = before.where("amount > 10")
    assert isinstance(before.node, nodes.SourceStream)
    assert after.node.inputs == (before.node,)


def test_steps_on_a_table_keep_it_a_table() -> None:
    table = users().where("name <> ''").with_columns(upper="upper(name)").select("id", "upper")
    assert isinstance(table, Table)
    assert table.node.keyed


def test_changes_of_a_table_are_a_stream() -> None:
    changes = users().changes()
    assert isinstance(changes, Stream)
    assert not changes.node.keyed


def test_count_is_an_aggregate_named_count() -> None:
    node = orders().by("id").count().node
    assert isinstance(node, nodes.Aggregate)
    assert (node.key, node.aggregates) == (("id",), ("count(*) as count",))


def test_walking_a_graph_meets_inputs_first_and_each_node_once() -> None:
    source = orders()
    both = source.where("amount > 1").union(source.where("amount < 1"))
    walked = nodes.walk(both.node)
    assert [type(node).__name__ for node in walked] == ["SourceStream", "Where", "Where", "Union"]
    assert nodes.sources_of(both.node) == [source.node]
