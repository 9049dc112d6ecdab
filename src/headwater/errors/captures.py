"""Errors of captures."""

from headwater.errors.branches import HeadwaterError


class CaptureError(HeadwaterError):
    """Something about captures; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidCapture(CaptureError):
    """The settings of a capture contradict each other."""


class UnknownCapture(CaptureError):
    def __init__(self, name: str, known: list[str]) -> None:
        listed = f"There are: {', '.join(known)}." if known else 'Make one with "headwater capture add".'
        super().__init__(f'there is no capture "{name}"', listed)
        self.name = name


class UnknownHook(CaptureError):
    def __init__(self, name: str, known: list[str]) -> None:
        listed = f"There are: {', '.join(known)}." if known else 'Make one with "headwater hook add".'
        super().__init__(f'there is no hook "{name[:100]}"', listed)
        self.name = name


class CaptureExists(CaptureError):
    def __init__(self, name: str) -> None:
        super().__init__(f'capture "{name}" exists already, with other tables or another database')
        self.name = name
        self.hint = f'Remove it with "headwater capture remove {name}", or choose another name.'


class SourceRefused(CaptureError):
    """The database lacks something a capture needs; the hint is what to do, or the exact statement."""


class SourceUnavailable(CaptureError):
    """The database does not answer, or ended the connection; the capture resumes when the database answers again."""


class SourceGap(CaptureError):
    """Changes may have been lost between the last one in the log and the first one the database still has."""


class UndecodableChange(CaptureError):
    """Bytes of a change stream that are not what they claim to be."""
