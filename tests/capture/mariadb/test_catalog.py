"""What a capture makes of its tables' names and keys, without a server."""

from typing import cast

import pytest

from headwater.capture.mariadb_binlog.catalog import Catalog, TextPlan
from headwater.capture.mariadb_binlog.charsets import Charsets
from headwater.capture.mariadb_binlog.database import Database
from headwater.capture.mariadb_binlog.described_types import form, kind_of_catalog
from headwater.capture.mariadb_binlog.tables import BASE_TABLE, Pattern, TableFacts
from headwater.capture.mariadb_binlog.text_values import ColumnFacts
from headwater.errors import SourceRefused

NAME = ColumnFacts("name", "varchar", "varchar(50)")


def facts(*columns: ColumnFacts, key: tuple[str, ...]) -> TableFacts:
    return TableFacts("shop", "users", BASE_TABLE, "InnoDB", True, 0, columns, key)


class FixedAnswers:
    """A database with fixed answers."""

    def __init__(self, table: TableFacts, *, folds: bool = False) -> None:
        self.table, self.folds = table, folds

    def one(self, query: str) -> str:
        assert "lower_case_table_names" in query
        return "1" if self.folds else "0"

    def charsets(self) -> Charsets:
        return Charsets({}, {})

    def all_tables(self) -> list[TableFacts]:
        return [self.table]

    def tables(self, schema: str, name: str) -> list[TableFacts]:
        return [self.table] if (schema, name) == ("shop", "users") else []


def catalog(table: TableFacts, *, folds: bool = False) -> Catalog:
    database = cast("Database", FixedAnswers(table, folds=folds))
    return Catalog(database, [Pattern("shop", "Users" if folds else "users")], capture="shop", topic="{table}")


ID = ColumnFacts("id", "int", "int(11)")
KEYED = facts(ID, NAME, key=("id",))


def test_names_are_folded_where_the_server_folds_them() -> None:
    folding, exact = catalog(KEYED, folds=True), catalog(KEYED)
    assert [table.name for table in folding.find()] == ["users"]
    assert [table.name for table in folding.named("SHOP", "USERS")] == ["users"]
    assert folding.folded(("Shop", "Users")) == ("shop", "users")
    exact.table_of(KEYED)
    assert exact.named("shop", "Users") == []
    assert [table.name for table in exact.named("", "")] == ["users"]


@pytest.mark.parametrize(
    "later",
    [
        facts(ColumnFacts("uid", "int", "int(11)"), NAME, key=("uid",)),
        facts(ColumnFacts("id", "varchar", "varchar(9)"), NAME, key=("id",)),
        facts(ID, NAME, key=("id", "name")),
        facts(NAME, key=("name",)),
    ],
    ids=["renamed", "retyped", "longer", "another"],
)
def test_a_key_that_is_written_otherwise_is_noticed_and_so_is_its_way_back(later: TableFacts) -> None:
    one = catalog(KEYED)
    one.table_of(KEYED)
    for version in (later, KEYED):
        assert one.rekeyed == set()
        one.table_of(version)
        assert one.rekeyed == {"shop.users"}
        one.rekeyed.clear()
    again = catalog(KEYED)
    again.remember({what: note for what, note in one.notes.items() if note is not None})
    again.table_of(KEYED)
    assert again.rekeyed == set()
    again.table_of(later)
    assert again.rekeyed == {"shop.users"}


def test_a_key_that_is_written_as_before_is_the_same_key() -> None:
    one = catalog(KEYED)
    one.table_of(KEYED)
    one.table_of(facts(NAME, ColumnFacts("id", "bigint", "bigint(20) unsigned"), ColumnFacts("x", "text"), key=("id",)))
    assert one.rekeyed == set()


def test_fractions_of_a_second_are_part_of_how_a_key_is_written() -> None:
    short, long = (ColumnFacts("at", "datetime", f"datetime({digits})") for digits in (3, 6))
    assert form(kind_of_catalog(short)) != form(kind_of_catalog(long))


def test_a_compressed_column_is_refused_before_the_log_cannot_be_read() -> None:
    column = ColumnFacts("body", "text", "text /*M!100301 COMPRESSED*/")
    table = facts(ID, column, key=("id",))
    with pytest.raises(SourceRefused, match="COMPRESSED"):
        TextPlan(catalog(table).table_of(table), table)
