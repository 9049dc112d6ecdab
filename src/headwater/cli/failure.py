"""Failures as sentences."""

from headwater.errors import HeadwaterError

FAILED, MISUSED, WARNED, JVM_ENDED, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143
"""Exit codes beside 0. WARNED: `run --once` has done all there was, and something about it is probably not as it was
meant. JVM_ENDED: Spark's JVM has ended; the same command resumes where it was. The last two: Ctrl-C and SIGTERM."""


class Failure(Exception):
    """A command cannot do what it was asked; the message is a sentence for the person who asked."""


def sentence_of(error: BaseException) -> str:
    """One line that says what happened and, where we know it, the way out.

    >>> sentence_of(FileNotFoundError(2, "No such file or directory", "orders.txt"))
    'No such file or directory: orders.txt.'
    """
    if isinstance(error, OSError) and not isinstance(error, HeadwaterError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    else:
        text = str(error) or type(error).__name__
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
