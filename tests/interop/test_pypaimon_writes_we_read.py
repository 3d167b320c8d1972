"""pypaimon writes tables, and we read what pypaimon reads: every version of main and of each branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.comparing import disagreement, version_options
from tests.interop.pypaimon_writer import SCENARIOS

pytestmark = pytest.mark.interop

NAMES = [scenario.__name__ for scenario in SCENARIOS]
# Tables that we may refuse to read, and the word that the refusal must hold.
MAY_REFUSE = {"append_row_tracking": "data-evolution", "append_deleted": "data-evolution"}


@pytest.mark.parametrize("name", NAMES)
def test_every_version_reads_as_pypaimon_reads_it(name: str, pypaimon_tables: dict[str, Any]) -> None:
    table = pypaimon_tables[name]
    assert "error" not in table, table["error"]
    assert Path(table["path"]).is_dir()
    problems = []
    for label, theirs in table["versions"].items():
        assert "error" not in theirs, f"{label}: {theirs['error']}"
        found = disagreement(table["path"], theirs, options=version_options(label), may_refuse=MAY_REFUSE.get(name))
        if found is not None:
            problems.append(f"{label}: {found}")
    assert not problems, "\n\n".join([table["path"], *problems])
