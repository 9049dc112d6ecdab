"""Finds damaged views and indexes in the data directory, for `headwater log check`. Changes nothing.

SQLite has no checksums of its own: what is found is what breaks its structure, or the agreement of a table with its
key. A changed value in a row is found by `headwater verify`, which works the view out again from the log.
"""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from zlib import crc32

from headwater.small_file import read_newest, small_files
from headwater.views.full_text import FOLDER as SEARCH
from headwater.views.locations import APP_FILE, FLOWS, VIEWS

INDEX_MAGIC = (1337).to_bytes(4, "little")


def problems(data: Path) -> list[str]:
    """One sentence for each damaged file; it names the file."""
    found = [problem for path in small_files(data / FLOWS, f"*/{APP_FILE}") for problem in _of_small_file(path, data)]
    views = (problem_of_database(path) for path in sorted((data / VIEWS).glob("*.sqlite")))
    found += [f"{problem}; build its views with --rebuild" for problem in views if problem]
    for folder in sorted(path for path in (data / SEARCH).glob("*/*") if path.is_dir()):
        found += problems_of_index(folder)
    return found


def _of_small_file(path: Path, data: Path) -> list[str]:
    try:
        return list(read_newest(str(path.relative_to(data)), lambda name: (data / name).read_bytes()).problems)
    except FileNotFoundError:
        return []
    except ValueError as error:
        return [f"{path} is damaged: {error}; the next run of the app writes it"]


def problem_of_database(path: Path) -> str:
    """Returns the problem of a SQLite file; "" if there is none."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            ((said, *_), *_) = database.execute("PRAGMA integrity_check(1)").fetchall()
            tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        finally:
            database.close()
    except sqlite3.Error as error:
        return f"{path} is damaged: {error}"
    if said != "ok":
        return f"{path} is damaged: {said.splitlines()[-1]}"
    return "" if tables else f"{path} is damaged: it is empty"


def problems_of_index(folder: Path) -> list[str]:
    """An index for searching: tantivy writes a checksum at the end of each file."""
    names: set[str] = set()
    found = []
    for file in (folder / "meta.json", folder / ".managed.json"):
        try:
            said = json.loads(file.read_bytes())
            if file.name == "meta.json":
                names |= {one["segment_id"].replace("-", "") for one in said["segments"]}
            elif unlisted := {path.name for path in folder.glob("[0-9a-f]*.*")} - set(said):
                # Names are listed before their files are made, and go after them.
                found.append(f"{file} is damaged: it lacks {min(unlisted)}; {_remade(folder)}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            found.append(f"{file} is damaged: {error}; {_remade(folder)}")
    for name in sorted(names):
        files = sorted(folder.glob(f"{name}.*"))
        writers = {file: _writer_of(file) for file in files}
        usual = Counter(writers.values()).most_common(1)[0][0] if files else ""
        damaged = [file for file, writer in writers.items() if not writer or writer != usual]
        found += [f"{file} is damaged; {_remade(folder)}" for file in damaged]
        missing = {".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term"} - {file.suffix for file in files}
        found += [f"{folder / (name + suffix)} is missing; {_remade(folder)}" for suffix in sorted(missing)]
    return found


def _remade(folder: Path) -> str:
    return f"remove {folder}, and the next run of the app makes it from the view"


def _writer_of(file: Path) -> str:
    """The version that wrote a file of an index, which its checksum does not cover; "" if the file is not whole."""
    try:
        content = file.read_bytes()
    except OSError:
        return ""
    length, magic = int.from_bytes(content[-8:-4], "little"), content[-4:]
    if magic != INDEX_MAGIC or length + 8 > len(content):
        return ""
    body, footer = content[: -8 - length], content[-8 - length : -8]
    try:
        said = json.loads(footer)
        return json.dumps(said["version"]) if said["crc"] == crc32(body) else ""
    except (ValueError, KeyError, TypeError):
        return ""
