"""Finds damaged files of captures and hooks, for `headwater log check`. Reads files; changes nothing."""

from pathlib import Path

from headwater.capture.definition import DEFINITION, REQUESTS
from headwater.capture.definition import FOLDER as CAPTURES
from headwater.capture.http.hooks import FOLDER as HOOKS
from headwater.capture.last_values import problem_of
from headwater.log.storage import LocalStorage, problems_of
from headwater.small_file import small_files, unseal


def problems(data: Path) -> list[str]:
    """One sentence for each damaged file; it names the file."""
    storage = LocalStorage(data)
    paths = [*small_files(data / CAPTURES, f"*/{DEFINITION}"), *small_files(data / HOOKS, "*.json")]
    found = [problem for path in paths for problem in problems_of(storage, str(path.relative_to(data)))]
    values = (problem_of(path) for path in sorted((data / CAPTURES).glob("*/values.sqlite")))
    asked = (_of_request(path) for path in sorted((data / CAPTURES).glob(f"*/{REQUESTS}/*.json")))
    return found + [problem for problem in (*values, *asked) if problem]


def _of_request(path: Path) -> str:
    try:
        unseal(path.read_bytes())
    except (OSError, ValueError) as error:
        return f"{path} is damaged: {error}; the capture does not do what it asks, so ask again"
    return ""
