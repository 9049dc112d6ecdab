"""What an app knows of a capture: nothing but that it was declared. `headwater run` sees to it."""

from typing import Protocol


class CaptureDeclaration(Protocol):
    """Such as hw.capture.postgres(...) gives."""

    @property
    def name(self) -> str:
        """Of the capture, which may be that of several tables; "" for the topic's own."""

    def definition(self, name: str) -> object:
        """The capture under a name."""
