"""Writers race on tables on each kind of server, and are killed at random."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.workload import Scenario, check, make_table, run

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]

SIZE: dict[str, Any] = (
    {"processes": 8, "commits": 50, "kills": 40} if os.environ.get("PAIMON_SPARK_CHAOS") == "full" else {"commits": 6}
)
TABLES: dict[str, dict[str, Any]] = {
    "append": {"overwrites": True},
    "keys": {"keys": ("p", "k"), "options": {"bucket": "2"}, "overwrites": True},
}


@pytest.mark.parametrize("table", TABLES)
def test_what_was_said_to_be_done_is_there(table: str, warehouse: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    url, options = warehouse
    scenario = Scenario(f"{url}/{uuid.uuid4().hex}", tmp_path, options, commit_s=0.5, **TABLES[table], **SIZE)
    make_table(scenario)
    run(scenario)
    print(url.partition("://")[0], check(scenario))
