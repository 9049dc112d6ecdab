"""Stored queries find what Lucene Monitor finds in real texts; scores are Lucene's too, but where it is said.

Lucene's jars come from Maven Central; where they cannot be had, the test is skipped with a sentence.
"""

import functools
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.index import QueryIndex
from tests.clients.brokers.maven import alone, cache_folder, compiled, download, java_command
from tests.clients.brokers.process import NotAvailable
from tests.flow.search.strangers.corpus import Author, Text, corpus

VERSION = "9.11.1"
DEPENDENCIES = "".join(
    f"<dependency><groupId>org.apache.lucene</groupId><artifactId>{name}</artifactId><version>{VERSION}</version>"
    "</dependency>"
    for name in ("lucene-monitor", "lucene-queryparser", "lucene-analysis-common")
)
POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>headwater</groupId>'
    f"<artifactId>lucene-for-tests</artifactId><version>1</version><dependencies>{DEPENDENCIES}</dependencies></project>"
)
SCHEMA = pa.schema([("lang", pa.string()), ("n", pa.int64()), ("title", pa.string()), ("body", pa.string())])
FIELDS = Fields((("title", "standard"), ("body", "porter")), SCHEMA)
Hits = dict[tuple[int, int], float]


@functools.cache
def class_path() -> str:
    folder = cache_folder() / f"lucene-monitor-{VERSION}"
    with alone("lucene-monitor"):
        if not folder.exists():
            download(folder, POM)
    return compiled("lucene-monitor", (Path(__file__).with_name("LuceneMonitor.java"),), f"{folder}/*")


def of_lucene(texts: list[Text], queries: list[str], folder: Path) -> Hits:
    try:
        command = [java_command(), "-Xmx1g", "-cp", class_path(), "LuceneMonitor"]
    except NotAvailable as why:
        pytest.skip(f"Lucene Monitor is not to be had: {why}")
    files = [folder / name for name in ("queries", "documents", "hits")]
    files[0].write_text("\n".join(queries))
    files[1].write_text("\n".join("\t".join(map(str, one)) for one in texts))
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = (line.split("\t") for line in files[2].read_text().splitlines())
    return {(int(owner), int(query)): float(score) for owner, query, score in rows}


def ours(texts: list[Text], queries: list[str]) -> Hits:
    index = QueryIndex(FIELDS)
    slots = index.slots(pa.array(queries))
    assert not index.mistakes
    by_slot: dict[int, list[int]] = {}
    for place, slot in enumerate(slots.tolist()):
        by_slot.setdefault(slot, []).append(place)
    hits: Hits = {}
    for begin in range(0, len(texts), 1000):
        rows = pa.RecordBatch.from_pylist([one._asdict() for one in texts[begin : begin + 1000]], SCHEMA)
        found = index.match(rows, index.alive(slots)).found
        for owner, slot, score in zip(*(one.tolist() for one in found), strict=True):
            hits |= {(begin + owner, place): score for place in by_slot[slot]}
    return hits


SCORED_OTHERWISE = re.compile(r"~|n:|\blang:")
"""Phrases with a slop, whose occurrences Lucene counts in its own way; and fuzzy words, scored by how near they are.
Exact strings and ranges are scored alike: they stand here because of the classes that Lucene makes of them."""


def compare(texts: list[Text], queries: list[str], folder: Path) -> Hits:
    theirs, found = of_lucene(texts, queries, folder), ours(texts, queries)
    different = sorted(found.keys() ^ theirs.keys())
    assert not different, [(queries[query], texts[owner], (owner, query) in found) for owner, query in different[:3]]
    scored = {pair: score for pair, score in found.items() if not SCORED_OTHERWISE.search(queries[pair[1]])}
    assert scored == pytest.approx({pair: theirs[pair] for pair in scored}, rel=1e-5)
    return found


@pytest.mark.timeout(600)
def test_hits_over_real_texts_are_those_of_lucene_monitor(tmp_path: Path) -> None:
    texts = corpus(400)
    author = Author(texts, seed=1)
    found = compare(texts, [author.query() for _ in range(400)], tmp_path)
    assert len(found) > 5000


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_hits_of_ten_thousand_queries_over_twenty_thousand_texts_are_those_of_lucene_monitor(tmp_path: Path) -> None:
    texts = corpus(20_000, 6)
    author = Author(texts, seed=2)
    assert len(texts) > 15_000
    compare(texts, [author.query() for _ in range(10_000)], tmp_path)
