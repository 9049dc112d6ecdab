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
    def misfit(self) -> str:
        """What is wrong with it, in a sentence; "" if nothing is.

        >>> KafkaLogin(mechanism="MAGIC").misfit
        'HEADWATER_KAFKA_MECHANISM cannot be MAGIC: it must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER'
        """
        if self.mechanism not in MECHANISMS:
            return f"{MECHANISM} cannot be {self.mechanism}: it must be one of {', '.join(MECHANISMS)}"
        if self.mechanism == OAUTHBEARER and self.token_file is None:
            return f"{OAUTHBEARER} logs in with a token: {TOKEN_FILE} names the file that holds it"
        if (self.certificate is None) != (self.key is None):
            return f"{CERTIFICATE} and {KEY} are given together"
        if self.certificate is not None and self.authority is None:
            return f"{CERTIFICATE} is shown only to a port whose authority is named by {AUTHORITY}"
        return ""

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
    said = os.environ.get

    def file(name: str) -> Path | None:
        text = said(name)
        return Path(text) if text else None

    return KafkaLogin(
        said(USER, ""), file(PASSWORD_FILE), file(AUTHORITY), said(MECHANISM) or "PLAIN", file(TOKEN_FILE),
        file(CERTIFICATE), file(KEY),
    )  # fmt: skip


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
