"""README and guide do what they say."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.docs.errands import Errands
from tests.docs.pages import Reader, blocks_of
from tests.flow.spark_session import shared_session
from tests.rules.source import ROOT
from tests.servers.mariadb import running_mariadb
from tests.servers.postgres_cluster import empty_database, running_cluster

SHOP = "127.0.0.1:5432/shop"
MARIADB = "127.0.0.1:3306/shop"
ALL_PROCESSES = (ROOT / "README.md",)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


@pytest.fixture
def reader(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """The commands of the README are processes of their own, all of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_DATA", raising=False)
    if page in ALL_PROCESSES:
        with closing(Reader(tmp_path)) as reader:
            yield reader
        return
    with closing(Errands(tmp_path, monkeypatch)) as errands, closing(Reader(tmp_path, errands)) as reader:
        yield reader


@pytest.mark.timeout(600)  # pages about flows start Spark
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page: Path, reader: Reader) -> None:
    if ".prove(" in page.read_text(encoding="utf-8"):
        shared_session()  # every block that proves a view would start a Spark of its own
    with a_database_for(page.read_text(encoding="utf-8"), reader):
        for block in blocks_of(page):
            reader.run(block, page)


def a_database_for(text: str, reader: Reader) -> AbstractContextManager[None]:
    if SHOP in text:
        return a_shop_at(reader.port_for("5432"))
    return a_mariadb_at(reader.port_for("3306")) if MARIADB in text else nullcontext()


@contextmanager
def a_mariadb_at(port: str) -> Iterator[None]:
    with running_mariadb(port=port) as server:
        connection = server.connect()
        connection.cursor().execute("CREATE DATABASE shop")
        connection.close()
        yield


@contextmanager
def a_shop_at(port: str) -> Iterator[None]:
    """A database for pages that follow one."""
    with running_cluster(listen_addresses="127.0.0.1", port=port) as cluster:
        empty_database(cluster, "shop")
        yield


def test_every_block_says_what_it_is() -> None:
    known = {"python", "sh", ""}
    odd = [f"{page.name}:{block.line} {block.language}" for page in PAGES for block in blocks_of(page)
           if block.language not in known]  # fmt: skip
    assert odd == []
