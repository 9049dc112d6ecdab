"""Endpoints for signed webhooks, as they are stored: one file each, that only its owner can read.

data/hooks/NAME.json    {"topic": "payments", "scheme": "stripe", "secrets": ["..."], "key": ""}

Each is a small file (small_file.py), with a checksum and a copy.
"""

import binascii
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headwater.capture.http.signatures import SCHEMES, secret_bytes
from headwater.errors import DamagedFile, InvalidCapture, UnknownHook
from headwater.log.storage import LocalStorage, delete_small_file, read_small_file, write_small_file
from headwater.small_file import small_files

FOLDER = "hooks"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
SECRET_CHARACTERS_MIN = 16


@dataclass(frozen=True, kw_only=True)
class Hook:
    name: str
    topic: str
    scheme: str
    secrets: tuple[str, ...] = field(repr=False)
    key: str = ""
    """The property whose value becomes the key of a record."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidCapture(f"{self.name[:80]!r} cannot name a hook", "Use letters, digits, dashes, underscores.")
        if self.scheme not in SCHEMES:
            raise InvalidCapture(f"there is no scheme {self.scheme[:40]!r}", f"There are: {', '.join(SCHEMES)}.")
        if not self.secrets or any(len(secret) < SECRET_CHARACTERS_MIN for secret in self.secrets):
            raise InvalidCapture(
                f"hook {self.name} needs a secret of at least {SECRET_CHARACTERS_MIN} characters",
                "Without one any client could send.",
            )
        try:
            for secret in self.secrets:
                secret_bytes(secret)
        except binascii.Error:
            raise InvalidCapture(f"hook {self.name} has a secret whsec_... that is not base64") from None


class Hooks:
    """The hooks of one data directory."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER
        self._storage = LocalStorage(self._folder, private=True)

    def names(self) -> list[str]:
        return sorted(path.stem for path in small_files(self._folder, "*.json"))

    def get(self, name: str) -> Hook:
        """UnknownHook if there is none, DamagedFile if it cannot be read. Read each time: a command may change it."""
        try:
            if not NAME.fullmatch(name):
                raise FileNotFoundError
            said = read_small_file(self._storage, f"{name}.json").content
            secrets = tuple(said["secrets"])
            return Hook(name=name, topic=said["topic"], scheme=said["scheme"], secrets=secrets, key=said["key"])
        except FileNotFoundError:
            raise UnknownHook(name, self.names()) from None
        except (KeyError, TypeError):
            # What was wrong is not repeated: the file has a secret.
            raise DamagedFile(str(self._folder / f"{name}.json"), "it is not what was written") from None

    def put(self, hook: Hook) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        said = {name: value for name, value in asdict(hook).items() if name != "name"}
        write_small_file(self._storage, f"{hook.name}.json", said)

    def remove(self, name: str) -> None:
        """Also one that cannot be read any more."""
        if name not in self.names():
            raise UnknownHook(name, self.names())
        delete_small_file(self._storage, f"{name}.json")
