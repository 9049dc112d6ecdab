"""Lines of the node's log."""

import io
import logging

from headwater.cli.log_lines import FORMAT, OneLineFormatter


def test_text_of_others_stays_on_its_line_and_a_traceback_keeps_its_own() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLineFormatter(FORMAT))
    logger = logging.Logger("headwater.test")
    logger.addHandler(handler)
    logger.warning("topic %s", "a\r\n2026-01-01 INFO headwater: all is well\x1b[2J\u2028x")
    [line] = stream.getvalue().splitlines()
    assert line.endswith(r"topic a\r\n2026-01-01 INFO headwater: all is well\x1b[2J\u2028x")
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("it failed")
    assert stream.getvalue().count("\n") > 3
