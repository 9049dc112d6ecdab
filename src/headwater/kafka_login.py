"""How this program logs in to a Kafka port, if it has to. Environment variables say it, so that processes inherit it.

    HEADWATER_KAFKA_USER            the user, for PLAIN or SCRAM
    HEADWATER_KAFKA_PASSWORD_FILE   a file with the password, which never stands in an environment or a command itself
    HEADWATER_KAFKA_MECHANISM       PLAIN (the default), and for commands also SCRAM-SHA-256 or SCRAM-SHA-512
    HEADWATER_KAFKA_AUTHORITY       a PEM file with the authority of the port's certificate: the port is encrypted then

Commands of the machine of a node need none of it: they log in with the token in its data directory.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

USER, PASSWORD_FILE = "HEADWATER_KAFKA_USER", "HEADWATER_KAFKA_PASSWORD_FILE"
MECHANISM, AUTHORITY = "HEADWATER_KAFKA_MECHANISM", "HEADWATER_KAFKA_AUTHORITY"
LOCAL_USER = "local"
"""The user of programs of the node's own machine."""


@dataclass(frozen=True)
class KafkaLogin:
    user: str = ""
    """"" does not log in."""
    password_file: Path | None = None
    authority: Path | None = None
    mechanism: str = field(default="PLAIN")

    @property
    def password(self) -> str:
        """OSError if the file cannot be read."""
        if self.password_file is None:
            return ""
        return self.password_file.read_text(encoding="utf-8").rstrip("\r\n")


NO_LOGIN = KafkaLogin()


def from_environment() -> KafkaLogin:
    said = os.environ.get
    file, authority = said(PASSWORD_FILE), said(AUTHORITY)
    return KafkaLogin(
        said(USER, ""), Path(file) if file else None, Path(authority) if authority else None, said(MECHANISM, "PLAIN")
    )


@contextmanager
def local_login(token_file: Path) -> Iterator[None]:
    """For as long as it lasts, this process and those it starts log in to the node whose token this is."""
    ours = {USER: LOCAL_USER, PASSWORD_FILE: str(token_file.absolute()), MECHANISM: "PLAIN", AUTHORITY: ""}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
