"""The branches of the tree: what they are called says whether to try again."""


class HeadwaterError(Exception):
    """Base of every error we raise on purpose; `hint` says the way out."""

    hint: str = ""

    def __str__(self) -> str:
        return f"{self.args[0]}. {self.hint}" if self.hint else str(self.args[0])


class UsageError(HeadwaterError):
    """The call is wrong; trying again cannot help."""


class ConflictError(HeadwaterError):
    """A concurrent change came first; read again, then decide."""


class UnavailableError(HeadwaterError):
    """Try again later, unchanged."""


class ProtocolError(HeadwaterError):
    """The bytes of a request are not what they claim to be; the connection is closed."""
