"""The picture of the parts is a test: an arrow that is not drawn is an import that is not allowed."""

import re
from pathlib import Path

from tests.rules.source import PACKAGE, ROOT, imports_of, modules, name_of, part_of

# The files of shared words stand at the bottom and import nothing of ours.
WORDS = {"clock", "durations", "errors", "kafka_login", "record", "secret_urls", "settings", "small_file"}

# What each part may import, beside the shared words. Siblings are never in each other's row.
MAY_IMPORT: dict[str, set[str]] = {
    "log": set(),
    "views": set(),
    "query": {"views"},
    "access": {"log"},
    "wire": {"log", "access"},
    "capture": {"log"},
    "webhooks": set(),
    "alerts": {"log", "views", "webhooks"},
    "registry": {"log"},
    "serve": {"log", "views", "query", "access"},
    "client": set(),
    "events": {"log", "client"},
    "flow": {"log", "views", "webhooks"},
    "http_port": {"log", "access", "wire", "alerts", "capture", "registry", "serve", "flow"},
    "kafka_log": {"log", "capture", "flow"},
    "node": {"log", "access", "views", "wire", "alerts", "capture", "http_port", "kafka_log"},
    "testing": {"log", "flow", "node"},
    "demo": {"flow", "views"},
    "cli": {
        "log",
        "access",
        "views",
        "wire",
        "alerts",
        "capture",
        "flow",
        "node",
        "serve",
        "query",
        "demo",
        "client",
        "events",
    },
}

# Siblings of wire that are drawn in the picture and not built yet. Building one moves it into the table above.
NOT_BUILT: set[str] = set()

# The front door: loads any of the above by name, when asked.
DOORS = {"__init__", "__main__"}

# Libraries that only some parts may know.
HOMES_OF_LIBRARIES: dict[str, set[str]] = {
    "asyncio": {"access", "wire", "serve", "http_port", "node"},
    "uvloop": {"wire", "node"},
    "socket": {"access", "wire", "serve", "http_port", "node", "flow", "cli", "capture", "webhooks", "views"},
    "starlette": {"serve"},
    "uvicorn": {"serve"},
    "kio": {"wire"},
    "confluent_kafka": {"cli", "demo"},
    "rich": {"cli"},
    "argparse": {"cli"},
    "prompt_toolkit": {"cli"},
    "fsspec": {"log", "flow"},
    "numba": {"log", "flow"},
    "duckdb": {"query"},
    "cryptography": {"access", "wire"},
    "joserfc": {"access"},
    "sqlglot": {"query", "flow", "errors"},
    "pyarrow": {"views", "query", "flow"},
    "sqlite3": {"views", "capture"},
    "psycopg": {"views", "capture", "demo"},
    "pymysql": {"capture"},
    "pyspark": {"flow"},
    "redis": {"flow"},
    "tantivy": {"views"},
}


def parts_imported_by(file: Path) -> set[str]:
    paths = [name.split(".") for name, level in imports_of(file) if level == 0]
    return {path[1] for path in paths if path[0] == "headwater" and len(path) > 1} - {part_of(file)}


def libraries_imported_by(file: Path) -> set[str]:
    return {name.split(".")[0] for name, level in imports_of(file) if level == 0}


def test_every_folder_and_file_of_the_package_is_in_the_picture() -> None:
    found = {part_of(file) for file in modules()}
    assert found == WORDS | DOORS | MAY_IMPORT.keys(), "a new or renamed part must not pass unseen"
    assert found.isdisjoint(NOT_BUILT)


def test_parts_import_only_what_lies_below_them() -> None:
    broken = [
        f"{name_of(file)} imports {target}"
        for file in modules()
        if part_of(file) in MAY_IMPORT
        for target in sorted(parts_imported_by(file) - MAY_IMPORT[part_of(file)] - WORDS)
    ]
    assert broken == []


def test_the_table_in_the_architecture_page_says_the_same() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (nothing|(?:`\w+`(?:, )?)+) \|$", page, flags=re.M)
    said = {
        part: set(re.findall(r"`(\w+)`", targets)) for parts, targets in rows for part in re.findall(r"`(\w+)`", parts)
    }
    assert said == MAY_IMPORT


def test_shared_words_import_nothing_of_ours() -> None:
    broken = {name_of(file): parts_imported_by(file) for file in modules() if part_of(file) in WORDS}
    assert {file: targets for file, targets in broken.items() if targets} == {}


def test_siblings_are_never_in_each_others_row() -> None:
    siblings = {"wire", "alerts", "capture", "events", "flow", "registry", "serve", *NOT_BUILT}
    assert all(MAY_IMPORT[part].isdisjoint(siblings) for part in siblings & MAY_IMPORT.keys())


def test_imports_are_absolute() -> None:
    relative = [name_of(file) for file in modules() for _, level in imports_of(file) if level]
    assert relative == [], "an absolute import shows its arrow"


def test_libraries_stay_where_they_belong() -> None:
    misplaced = [
        f"{name_of(file)} imports {library}"
        for file in modules()
        for library in sorted(libraries_imported_by(file) & HOMES_OF_LIBRARIES.keys())
        if part_of(file) not in HOMES_OF_LIBRARIES[library]
    ]
    assert misplaced == []


def test_the_protocol_folder_knows_neither_the_log_nor_a_socket() -> None:
    files = sorted((PACKAGE / "wire" / "protocol").glob("*.py"))
    known = {name_of(file): (parts_imported_by(file) | libraries_imported_by(file)) for file in files}
    assert {
        file: names & {"log", "asyncio", "socket"} for file, names in known.items() if names & {"log", "asyncio"}
    } == {}
