"""What a stream of documents and stored queries should hold, as of the time of each document: its reference.

Every document meets every version of a query that held at its time; plain Python then says whether it matches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.flow.declare.topology.stored_queries import AsOfPercolate, Percolate
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.percolation import EXPLANATION, HIGHLIGHTS, SCORE, SCORE_DIGITS, Search
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.proof.search.reference import Document, Hit, fragments, hit_of
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.rows.row_steps import visible

LEFT, RIGHT = "_l_", "_r_"


@dataclass(frozen=True)
class Evaluate:
    """Keeps pairs of a document and a query that match, with what is reported of the hit."""

    search: Search

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept, reported = [], []
            for place, row in enumerate(batch.to_pylist()):
                document = Document(self.search.fields, {name: row[LEFT + name] for name in self.search.fields.needed})
                text = row[RIGHT + self.search.query]
                hit = hit_of(text, document, self.search.default)
                if hit is not None:
                    kept.append(place)
                    reported.append(self._reported(hit, text, document))
            own = batch.take(pa.array(kept, pa.int64()))
            more = pa.RecordBatch.from_pylist(reported, self.search.hit_schema)
            yield pa.RecordBatch.from_arrays(
                [*own.columns, *more.columns], names=[*own.schema.names, *more.schema.names]
            )

    def _reported(self, hit: Hit, text: str, document: Document) -> dict[str, Any]:
        names = ("clause", "frequency", "score")
        return {
            SCORE: float(np.round(hit.score, SCORE_DIGITS)),
            HIGHLIGHTS: fragments(text, document, self.search.default) if self.search.highlight else None,
            EXPLANATION: [dict(zip(names, one, strict=True)) for one in hit.leaves],
        }


def search_over(node: Percolate | AsOfPercolate, left: DataFrame) -> Search:
    said, columns = node.search, arrow_schema(left.select(*map(quoted, visible(left))).schema)
    fields = Fields(said.text, columns, said.points)
    return Search(fields, said.query, said.default, said.highlight, said.explain)


def matching_pairs(pairs: DataFrame, search: Search) -> DataFrame:
    """Of pairs of a document and a query those that match."""
    reported = spark_schema(search.hit_schema)
    return pairs.mapInArrow(Evaluate(search), StructType([*pairs.schema, *reported]))


def hit_path(place: str, right: DataFrame) -> Column:
    """What distinguishes hits of one document: a hash of the stored row, beside which of several rows it was."""
    columns = arrow_schema(right.select(*map(quoted, visible(right))).schema)
    stored: Sequence[Column] = [f.col(quoted(RIGHT + one.name)) for one in columns if can_hash(one.type)]
    return f.xxhash64(*(f.col(f"{place}_{name}").cast("long") for name in ("content", "nth")), f.xxhash64(*stored))
