# Every verb sets up what it needs; a new person needs "make demo" and "make test", nothing before them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo cluster docs test check style bench torture reference clean

VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores: for a quarter of the time tests wait, for clocks, browsers, and programs that start.
WORKERS ?= 3
ARGS ?=
# Images of containers often set it. Tests start hundreds of Python processes, and each would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE
# A file of tests is for one worker, so that what its tests share is set up once; long files come first (tests/order.py).
BY_FILE := --dist loadfile --no-loadscope-reorder

help:  ## print this list
	@echo "headwater: a durable log that every Kafka client can talk to"
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

demo: $(VENV)/demo  ## a small shop, end to end, with a dashboard; until Ctrl-C, or ARGS="--for 60s"
	@scripts/java
	@$(BIN)/headwater demo $(ARGS)

cluster: $(VENV)/everything  ## the shop on three Kafka brokers, Spark with two workers, PostgreSQL; ARGS="--for 60s"
	@scripts/java
	@$(BIN)/python -m tests.cluster $(ARGS)

test: $(VENV)/everything  ## what must pass before a merge: style and types, then every test
	@scripts/java || echo "continuing without Java: its client's tests are skipped"
	@# Types take one core half a minute: meanwhile another compiles what each worker would compile for itself.
	@$(BIN)/python -m pytest -qq --warm >/dev/null 2>&1 & $(MAKE) --no-print-directory style && wait
	$(BIN)/python -m pytest -n $(WORKERS) $(BY_FILE) $(ARGS)

check: style  ## style, types, and the house rules
	$(BIN)/python -m pytest -q tests/rules

style: $(VENV)/everything  ## style and types alone
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/everything  ## how fast it is, beside the disk, a bare server, Apache Kafka, and Spark alone
	@scripts/java || echo "continuing without Java: Apache Kafka and all flows are left out"
	$(BIN)/python -m benchmarks $(ARGS)

torture: $(VENV)/everything  ## kill it two hundred times under load and count what is lost
	$(BIN)/python -m tests.crash.torture $(ARGS)
	$(BIN)/python -m tests.flow.random_queries --queries 1000
	$(BIN)/python -m tests.flow.tpch --scale 0.1
	$(BIN)/python -m tests.flow.large_joins
	$(BIN)/python -m tests.flow.large_outputs
	HEADWATER_PATTERNS=2000 $(BIN)/pytest -q tests/flow/operators/patterns/test_any_pattern.py
	HEADWATER_TESTS_ON_SPARK=1 $(BIN)/pytest -q -m torture
	$(BIN)/python -m tests.wire.fuzz_ports --operations 1000000
	HEADWATER_RESPONSE_EXAMPLES=100 $(BIN)/pytest -q tests/wire/test_every_response.py
	HEADWATER_TESTS_ON_SPARK=1 HEADWATER_COMPILED_PLANS=1 $(BIN)/pytest -q tests/flow/job tests/crash/flow
	HEADWATER_CLUSTER_ROUNDS=20 $(BIN)/pytest -q tests/flow/kafka/test_cluster.py
	$(BIN)/python -m tests.cluster --rounds 60
	HEADWATER_STREAMS_KILLS=10 $(BIN)/pytest -q tests/clients/streams
	HEADWATER_PAIRS=1000 $(BIN)/pytest -q tests/flow/job/test_own_writes.py
	HEADWATER_MAIL_CASES=20000 $(BIN)/pytest -q tests/alerts/test_mail_message.py
	HEADWATER_API_EXAMPLES=100 $(BIN)/pytest -q tests/serve/test_document.py
	HEADWATER_FUZZ_REQUESTS=100000 $(BIN)/pytest -q tests/capture/http/test_fuzz.py
	$(BIN)/python -m tests.capture.large
	HEADWATER_RELAY_ROUNDS=30 $(BIN)/pytest -q tests/crash/capture/test_relay_killing.py
	HEADWATER_SQLITE_ROUNDS=30 $(BIN)/pytest -q tests/crash/capture/test_sqlite_killing.py
	HEADWATER_MARIADB_ROUNDS=30 $(BIN)/pytest -q tests/crash/capture/test_mariadb_killing.py
	HEADWATER_FILES_ROUNDS=30 $(BIN)/pytest -q tests/crash/capture/test_files_killing.py

docs: $(VENV)/docs  ## the pages of docs as a site, in build/site
	$(BIN)/python scripts/site.py $(ARGS)

reference: $(VENV)/everything  ## regenerate docs/reference from the code
	$(BIN)/python scripts/reference.py --write

clean:  ## remove the environment and the files of tools
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/demo: pyproject.toml constraints.txt scripts/environment
	@scripts/environment $(VENV) '.[demo]'
	@touch $@

$(VENV)/docs: pyproject.toml constraints.txt scripts/environment
	@scripts/environment $(VENV) '.[docs]'
	@touch $@

$(VENV)/everything: pyproject.toml constraints.txt scripts/environment
	@scripts/environment $(VENV) '.[test]'
	@touch $@ $(VENV)/demo $(VENV)/docs
