"""Errors of the schema registry."""

from headwater.errors.branches import HeadwaterError


class SchemaError(HeadwaterError):
    """Something about schemas in the registry; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownSubject(SchemaError):
    def __init__(self, subject: str) -> None:
        super().__init__(f'the registry has no subject "{subject}"')
        self.subject = subject
        self.hint = 'List what it has with "headwater schema list".'


class UnknownVersion(SchemaError):
    def __init__(self, subject: str, version: int) -> None:
        super().__init__(f'subject "{subject}" has no version {version}')
        self.subject, self.version = subject, version
        self.hint = f'See what it has with "headwater schema show {subject}".'


class UnknownSchema(SchemaError):
    """The registry has no such schema: not this id, or not under this subject."""


class AlreadyDeleted(SchemaError):
    """A subject or version that is deleted for readers already."""

    def __init__(self, subject: str, version: int | None = None) -> None:
        what = f'subject "{subject}"' if version is None else f'version {version} of subject "{subject}"'
        super().__init__(f"{what} was deleted before")
        self.subject, self.version = subject, version
        self.hint = "Say permanent=true to delete it for good."


class NotYetDeleted(SchemaError):
    """Only what readers no longer see can be deleted for good."""

    def __init__(self, subject: str, version: int | None = None) -> None:
        what = f'subject "{subject}"' if version is None else f'version {version} of subject "{subject}"'
        super().__init__(f"{what} cannot be deleted for good: it has not been deleted")
        self.subject, self.version = subject, version
        self.hint = "Delete it first without permanent=true, so that no client starts to use it in the meantime."


class NoOwnCompatibility(SchemaError):
    def __init__(self, subject: str) -> None:
        super().__init__(f'subject "{subject}" has no compatibility level of its own')
        self.hint = "The level of the registry counts for it: ask for /config, or say defaultToGlobal=true."


class InvalidSchemaText(SchemaError):
    """The text is not a schema of its type; the message says where."""


class InvalidVersion(SchemaError):
    def __init__(self, said: str) -> None:
        super().__init__(f"{said[:40]!r} is not a version", "Use a number from 1 on, or latest.")


class InvalidCompatibility(SchemaError):
    """A compatibility level, or a mode, that there is not."""


class SchemaReferenced(SchemaError):
    def __init__(self, subject: str, version: int, by: list[int]) -> None:
        super().__init__(f'version {version} of subject "{subject}" is referenced by schema {", ".join(map(str, by))}')
        self.hint = "Delete those first."


class IncompatibleSchema(SchemaError):
    """`reasons` say each change that the rule forbids, and where."""

    def __init__(self, subject: str, *, level: str, version: int, reasons: list[str]) -> None:
        said = "; ".join(reasons[:3]) + ("; and more" if len(reasons) > 3 else "")
        super().__init__(f'the schema is not {level} compatible with version {version} of subject "{subject}": {said}')
        self.reasons = reasons
        self.hint = "Change it, or the subject's compatibility level."


class RegistryUnavailable(SchemaError):
    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"the schema registry at {where} does not answer: {cause}")
        self.hint = "Look after it; the same call may be made again, unchanged."
