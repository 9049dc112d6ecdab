"""What is set up around a session; no Spark is started here."""

from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger

from headwater.flow.session import PYSPARK_LOGGERS, SPARK_LOG, log_to


def test_what_pyspark_logs_of_errors_that_it_raises_goes_to_the_file_and_not_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_to(tmp_path / SPARK_LOG)
    for name in PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).error(f"said by {name}")
    assert capfd.readouterr() == ("", "")
    written = (tmp_path / SPARK_LOG).read_text()
    assert [name for name in PYSPARK_LOGGERS if f"said by {name}" in written] == list(PYSPARK_LOGGERS)
