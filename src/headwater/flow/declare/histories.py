"""From a table to the history of its rows: the same steps over all versions, which must have times of their own."""

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.joins import versions_of
from headwater.flow.declare.topology.nodes import Changes, History, Latest, Node, Select, SourceTable, WithColumns, walk


def history_of(table: Node, valid_from: str, valid_to: str, name: str) -> History:
    """InvalidDeclaration if it is not known when rows of the table became what they are."""
    place = calling_place()
    kept = table
    while isinstance(kept, Select | WithColumns):
        kept = kept.input
    if not isinstance(kept, SourceTable | Latest) or any(isinstance(one, Changes) for one in walk(kept)):
        raise InvalidDeclaration(
            f"history() at {place} is of a table whose changes have no time of their own",
            "Take that of app.table(...) or of stream.latest(...), with nothing but select and with_columns after it.",
        )
    if valid_from == valid_to:
        raise InvalidDeclaration(f"history() at {place} has one name for both columns: {valid_from}", "Say two.")
    return History(place, _over(table), kept.key, valid_from, valid_to, name)


def _over(table: Node) -> Node:
    if isinstance(table, Select):
        return Select(table.place, _over(table.input), table.columns)
    if isinstance(table, WithColumns):
        return WithColumns(table.place, _over(table.input), table.columns)
    if isinstance(table, SourceTable):
        return versions_of(table)
    assert isinstance(table, Latest)
    return table.input
