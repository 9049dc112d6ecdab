"""Places where signed webhooks are taken, as they are kept: one file each, that only its owner can read.

data/hooks/NAME.json    {"topic": "payments", "scheme": "stripe", "secrets": ["..."], "key": ""}
"""

import binascii
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headwater.capture.http.signatures import SCHEMES, secret_bytes
from headwater.errors import InvalidCapture, UnknownHook

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
                "Without one anybody could send.",
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

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def get(self, name: str) -> Hook:
        """UnknownHook if there is none. Read each time: it may have been changed by a command."""
        try:
            if not NAME.fullmatch(name):
                raise FileNotFoundError
            said = json.loads((self._folder / f"{name}.json").read_text(encoding="utf-8"))
        except OSError:
            raise UnknownHook(name, self.names()) from None
        return Hook(
            name=name, topic=said["topic"], scheme=said["scheme"], secrets=tuple(said["secrets"]), key=said["key"]
        )

    def put(self, hook: Hook) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        said = {name: value for name, value in asdict(hook).items() if name != "name"}
        fresh = self._folder / f".{hook.name}.new"
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._folder / f"{hook.name}.json")

    def remove(self, name: str) -> None:
        self.get(name)
        (self._folder / f"{name}.json").unlink(missing_ok=True)
