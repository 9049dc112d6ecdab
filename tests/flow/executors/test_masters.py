"""What executors elsewhere are told."""

import pytest

from headwater.errors import FlowError
from headwater.flow.executors.masters import (
    DRIVER_HOST,
    address_towards,
    executor_python,
    executor_settings,
    standalone_masters,
)

MASTER = "spark://127.0.0.1:7077"


def test_the_driver_is_found_under_the_address_that_the_master_sees() -> None:
    assert address_towards(MASTER) == "127.0.0.1"
    assert executor_settings(MASTER, {}, {})[DRIVER_HOST] == "127.0.0.1"


def test_the_next_of_several_masters_is_asked_where_one_has_no_address() -> None:
    assert address_towards("spark://no-such-host.invalid:7077,127.0.0.1:7078") == "127.0.0.1"


def test_an_address_that_the_user_names_stays() -> None:
    assert DRIVER_HOST not in executor_settings(MASTER, {DRIVER_HOST: "driver.example"}, {})


def test_only_the_user_knows_the_drivers_address_on_yarn() -> None:
    assert DRIVER_HOST not in executor_settings("yarn", {}, {})


def test_executors_log_in_with_the_files_of_the_driver() -> None:
    environment = {"HEADWATER_KAFKA_USER": "ada", "HEADWATER_KAFKA_KEY": "", "PGPASSFILE": "/run/pg", "HOME": "/root"}
    found = executor_settings(MASTER, {}, environment)
    assert {name: value for name, value in found.items() if "executorEnv" in name} == {
        "spark.executorEnv.HEADWATER_KAFKA_USER": "ada",
        "spark.executorEnv.PGPASSFILE": "/run/pg",
    }


def test_what_the_user_says_of_executors_counts() -> None:
    said = {"spark.executorEnv.PGPASSFILE": "/theirs", "spark.executor.extraJavaOptions": "-Dx=1"}
    found = executor_settings(MASTER, said, {"PGPASSFILE": "/ours"})
    assert found["spark.executorEnv.PGPASSFILE"] == "/theirs"
    assert found["spark.executor.extraJavaOptions"] == "-Xss4m -Dx=1"


def test_executors_run_the_python_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert executor_python({}, "/here") == "/here"
    monkeypatch.setenv("PYSPARK_PYTHON", "/variable")
    assert executor_python({}, "/here") == "/variable"
    assert executor_python({"spark.pyspark.python": "/setting"}, "/here") == "/setting"


def test_a_master_that_is_no_address_is_refused_in_a_sentence() -> None:
    with pytest.raises(FlowError, match="spark://m:x is not spark://HOST:PORT"):
        standalone_masters("spark://m:x")
