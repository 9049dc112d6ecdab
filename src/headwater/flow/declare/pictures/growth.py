"""State that grows for ever: which operators keep rows that nothing ever removes, and what they keep a row for (pure).

Rows of a table come and go with those of what it is made of: one that is captured is as large as the database's. A
table that is made of a stream only ever gets new keys, and so does everything that is made of it.
"""

from headwater.flow.declare.topology import nodes
from headwater.flow.declare.topology.nodes import Node, walk

RECORD_POSITION = "_at.offset"
"""What distinguishes the records of a stream that a query reads as a table."""


def growth_of(node: Node) -> str:
    """What an operator keeps a row for, for ever; empty if its state ends, or is as large as a table that is read."""
    if isinstance(node, nodes.History):
        return "a row for each version of each row"
    if isinstance(node, nodes.Recognized):
        rows = "" if node.spec.bounded else "rows of matches that nothing ends (say within= or max_rows=)"
        keys = f"a row for each {', '.join(node.spec.by)} that ever comes" if node.spec.numbers_matches else ""
        return ", and ".join(filter(None, (rows, keys)))
    if isinstance(node, nodes.TableOperator | nodes.TableAggregate | nodes.Newest):
        return "with what it is made of" if any(map(_grows, node.inputs)) else ""
    if isinstance(node, nodes.Latest | nodes.Aggregate) and node.key:
        return "a row for each record" if _by_record(node) else f"a row for each {', '.join(node.key)} that ever comes"
    return ""


def _grows(node: Node) -> bool:
    """Whether a table has rows that nothing removes."""
    if isinstance(node, nodes.SourceTable):
        return False
    if isinstance(node, nodes.Windowed):
        return not node.window.expires
    if isinstance(node, nodes.Latest | nodes.History):
        return True
    if isinstance(node, nodes.TableAggregate):
        return bool(node.key) and _grows(node.input)
    if isinstance(node, nodes.Aggregate):
        return bool(node.key)
    return any(map(_grows, node.inputs))


def _by_record(node: nodes.Latest | nodes.Aggregate) -> bool:
    made = {
        name
        for one in walk(node)
        if isinstance(one, nodes.WithColumns)
        for name, text in one.columns.items()
        if text == RECORD_POSITION
    }
    return bool(made & set(node.key))
