"""Lines of a log: one for each message, whatever characters it has."""

import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def one_line(text: str) -> str:
    r"""Text of others cannot begin a line of its own, nor move the cursor of a terminal.

    >>> print(one_line("topic a\n2026-01-01 INFO all is well\x1b[2J"))
    topic a\n2026-01-01 INFO all is well\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class OneLineFormatter(logging.Formatter):
    """Only tracebacks have more lines; they are our own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)


def set_up(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


def guard_last_resort() -> None:
    """Shows warnings in commands that keep no log."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(OneLineFormatter())
