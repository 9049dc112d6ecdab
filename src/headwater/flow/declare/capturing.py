"""What an app knows of a capture: nothing but that it was declared. Whoever runs the app sees to it."""

from typing import Protocol


class CaptureDeclaration(Protocol):
    """Such as hw.capture.postgres(...) gives."""

    def definition(self, name: str) -> object:
        """The capture under a name."""
