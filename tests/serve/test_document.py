"""Everything that the document of the API allows, and much that it does not, asked by schemathesis: never a 5xx."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.settings import HttpSettings
from tests.serve.shop import fill, open_shop

EXAMPLES = int(os.environ.get("HEADWATER_API_EXAMPLES", "6"))
SECONDS_MAX = 260 + 4 * EXAMPLES
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.timeout(SECONDS_MAX + 20)
def test_whatever_is_asked_is_answered_as_the_document_says(tmp_path: Path) -> None:
    with open_shop(tmp_path / "data", HttpSettings(position_wait_max=timedelta(milliseconds=20))) as shop:
        fill(shop)
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{shop.node.http_url}/openapi.json",
            "--checks", CHECKS, "--max-examples", str(EXAMPLES), "--phases", "examples,coverage,fuzzing",
            "--seed", "7", "--exclude-path-regex", "/live$",
            "--generation-database", "none", "--no-color", "--request-timeout", "60",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Test cases" in done.stdout or "generated" in done.stdout, done.stdout[-2000:]
