"""The token of this machine: a program that can read it in the data directory may do everything with the node."""

import logging
import os
import secrets
from pathlib import Path

from headwater.settings import LOCAL_TOKEN_FILE

_logger = logging.getLogger(__name__)

PREFIX = "hw_"


class LocalToken:
    def __init__(self, data: Path) -> None:
        self._file = data / LOCAL_TOKEN_FILE
        self._token = ""

    @property
    def value(self) -> str:
        """ "" while there is none; it matches no request."""
        return self._token

    def open(self) -> None:
        """Another one at each start of a node."""
        self._token = PREFIX + secrets.token_urlsafe(32)
        try:
            _write_privately(self._file, self._token)
        except OSError as error:
            # A full disk must not keep a node from serving what is on it; commands then need a token where one exists.
            _logger.warning("%s cannot be written: %s", self._file, error)

    def close(self) -> None:
        self._token = ""
        self._file.unlink(missing_ok=True)


def _write_privately(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
