"""A certificate says what a proved view holds, so that it can be checked on another machine that has the same log.

    {"app": "shop", "view": "revenue", "batch": 41, "position": {"orders": {"0": 1200, "1": 1187}}, "rows": 3,
     "columns": ["currency", "orders", "revenue"], "left_out": [], "digest": "5f0c…", "versions": {"headwater": …}}

The digest is of all rows in any order: each row's SHA-256 is cut into four numbers, and the numbers of all rows are
added up, each modulo 2^64. It is made of what the log says and not of what the view holds; of a proved view these are
the same. Columns whose values a proof accepts within a tolerance, and maps, which have no order, are left out and
named.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType

from headwater.errors import FlowError
from headwater.flow.formats.schema import quoted
from headwater.flow.proof.tolerances import RULE
from headwater.flow.rows.row_steps import visible

PARTS = 4
DIGITS = 16
"""Of a SHA-256 in hexadecimal, for each of its parts."""
FORMAT = 1


@dataclass(frozen=True)
class Content:
    """Rows of a view, whatever their order."""

    rows: int
    columns: list[str]
    left_out: list[str]
    digest: str


@dataclass(frozen=True)
class Certificate:
    app: str
    view: str
    batch: int
    position: Mapping[str, Mapping[int, int]]
    content: Content
    versions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        said = asdict(self)
        return {**{name: said[name] for name in said if name != "content"}, **said["content"]}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Certificate":
        content = Content(said["rows"], said["columns"], said["left_out"], said["digest"])
        position = {topic: {int(one): at for one, at in parts.items()} for topic, parts in said["position"].items()}
        return cls(said["app"], said["view"], said["batch"], position, content, said["versions"])


def used_versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("headwater", "pyspark", "pyarrow")}
    return {**packages, "python": platform.python_version()}


def content_of(rows: DataFrame) -> Content:
    """Of the rows that one plain query gives."""
    fields = [rows.schema[name] for name in visible(rows)]
    chosen = [field for field in fields if not inexact(field)]
    row = f.to_json(f.array(*(_text(field) for field in chosen)), {"ignoreNullFields": "false", "timeZone": "UTC"})
    digest = f.sha2(row.cast("binary"), 256)
    sums = [f.sum(_part(digest, number)).alias(f"part{number}") for number in range(PARTS)]
    found = rows.agg(f.count("*").alias("rows"), *sums).first()
    assert found is not None
    parts = [int(found[f"part{number}"] or 0) % 2**64 for number in range(PARTS)]
    names = [field.name for field in chosen]
    left_out = [field.name for field in fields if inexact(field)]
    return Content(found["rows"], names, left_out, "".join(f"{part:016x}" for part in parts))


def _text(field: StructField) -> Column:
    """A column as JSON: a struct of one field distinguishes null from a text that says so."""
    return f.to_json(f.struct(f.col(quoted(field.name)).alias("v")), {"ignoreNullFields": "false", "timeZone": "UTC"})


def _part(digest: Column, number: int) -> Column:
    hexadecimal = f.substring(digest, number * DIGITS + 1, DIGITS)
    return f.conv(hexadecimal, 16, 10).cast("decimal(20,0)")


def inexact(field: StructField) -> bool:
    return RULE in field.metadata or _hasinexact(field.dataType)


def _hasinexact(kind: DataType) -> bool:
    match kind:
        case DoubleType() | FloatType() | MapType():
            return True
        case ArrayType():
            return _hasinexact(kind.elementType)
        case StructType():
            return any(_hasinexact(field.dataType) for field in kind)
    return False


def write_certificates(file: Path, certificates: list[Certificate]) -> None:
    content = {"format": FORMAT, "views": [one.to_json() for one in certificates]}
    file.write_text(json.dumps(content, indent=2) + "\n")


def read_certificates(file: Path) -> list[Certificate]:
    """FlowError if the file is none, or is one of a later version."""
    try:
        content = json.loads(file.read_text())
        if content["format"] != FORMAT:
            raise FlowError(
                f"{file} is a certificate of format {content['format']}, and this version reads {FORMAT}",
                "Check it with the version of headwater that it names.",
            )
        return [Certificate.from_json(one) for one in content["views"]]
    except OSError as error:
        raise FlowError(f"{file} cannot be read: {error.strerror}", "Name a file that --certificate wrote.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FlowError(
            f"{file} is no certificate", "Name a file that headwater verify --certificate wrote."
        ) from error
