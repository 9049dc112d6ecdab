"""How this program logs in to a Kafka port, if it has to. Environment variables say it, so that processes inherit it.

    HEADWATER_KAFKA_USER            the user, for PLAIN or SCRAM
    HEADWATER_KAFKA_PASSWORD_FILE   a file with the password, which never stands in an environment or a command itself
    HEADWATER_KAFKA_MECHANISM       PLAIN (the default), SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
    HEADWATER_KAFKA_TOKEN_FILE      a file with the token of OAUTHBEARER, read again for each connection
    HEADWATER_KAFKA_AUTHORITY       a PEM file with the authority of the port's certificate: the port is encrypted then
    HEADWATER_KAFKA_CERTIFICATE     a PEM file with our own certificate, and
    HEADWATER_KAFKA_KEY             its private key, where the port asks for one (mTLS)

Files are read again for each connection, so that what was renewed is used from the next one on.

Commands of the machine of a node need none of it: they log in with the token in its data directory.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import InvalidSetting

USER, PASSWORD_FILE = "HEADWATER_KAFKA_USER", "HEADWATER_KAFKA_PASSWORD_FILE"
MECHANISM, AUTHORITY = "HEADWATER_KAFKA_MECHANISM", "HEADWATER_KAFKA_AUTHORITY"
TOKEN_FILE = "HEADWATER_KAFKA_TOKEN_FILE"
CERTIFICATE, KEY = "HEADWATER_KAFKA_CERTIFICATE", "HEADWATER_KAFKA_KEY"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
LOCAL_USER = "local"
"""The user of programs of the node's own machine."""


@dataclass(frozen=True)
class KafkaLogin:
    user: str = ""
    """"" does not log in."""
    password_file: Path | None = None
    authority: Path | None = None
    mechanism: str = field(default="PLAIN")
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def logs_in(self) -> bool:
        return bool(self.user) or self.mechanism == OAUTHBEARER

    @property
    def token(self) -> str:
        """OSError if the file cannot be read."""
        return "" if self.token_file is None else self.token_file.read_text(encoding="utf-8").strip()

    @property
    def password(self) -> str:
        """OSError if the file cannot be read."""
        if self.password_file is None:
            return ""
        return self.password_file.read_text(encoding="utf-8").rstrip("\r\n")


NO_LOGIN = KafkaLogin()


def from_environment() -> KafkaLogin:
    """InvalidSetting if the mechanism is none that we know, or what belongs together is not said together."""
    said = os.environ.get

    def file(name: str) -> Path | None:
        text = said(name)
        return Path(text) if text else None

    mechanism = said(MECHANISM) or "PLAIN"
    if mechanism not in MECHANISMS:
        raise InvalidSetting(MECHANISM, mechanism, f"it must be one of {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER and not said(TOKEN_FILE):
        raise InvalidSetting(TOKEN_FILE, "", f"{OAUTHBEARER} logs in with the token in this file")
    if bool(said(CERTIFICATE)) != bool(said(KEY)):
        raise InvalidSetting(CERTIFICATE, said(CERTIFICATE) or "", f"{CERTIFICATE} and {KEY} are given together")
    if said(CERTIFICATE) and not said(AUTHORITY):
        raise InvalidSetting(AUTHORITY, "", f"{CERTIFICATE} is shown to a port whose own authority is named")
    return KafkaLogin(
        said(USER, ""), file(PASSWORD_FILE), file(AUTHORITY), mechanism, file(TOKEN_FILE), file(CERTIFICATE), file(KEY)
    )


@contextmanager
def local_login(token_file: Path) -> Iterator[None]:
    """For as long as it lasts, this process and those it starts log in to the node whose token this is."""
    ours = {USER: LOCAL_USER, PASSWORD_FILE: str(token_file.absolute()), MECHANISM: "PLAIN", AUTHORITY: "",
            TOKEN_FILE: "", CERTIFICATE: "", KEY: ""}  # fmt: skip
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
