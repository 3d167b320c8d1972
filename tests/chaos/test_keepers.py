"""Writers, and processes that tag, branch, merge, compact and expire beside them, killed at random."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.keepers import Scene, check, make, run

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

SIZE: dict[str, Any] = (
    {"seconds": 240.0, "kills": 250, "writers": 4, "keepers": 4}
    if os.environ.get("PAIMON_SPARK_CHAOS") == "full"
    else {}
)


def test_the_check_notices_a_job_that_never_acted(tmp_path: Path) -> None:
    scene = Scene(str(tmp_path / "wh" / "db.db" / "t"), tmp_path, writers=1, keepers=1)
    make(scene)
    for job in ("writer", "keeper", "reader"):
        with pytest.raises(AssertionError, match=f"{job} 0 never acted"):
            check(scene)
        (tmp_path / f"{job}-0-1.log").write_text("done -1\n" if job == "writer" else "done tag\n")
    check(scene)


@pytest.mark.parametrize("merges", [False, True], ids=["", "merging"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_what_was_written_stays(keyed: bool, merges: bool, tmp_path: Path) -> None:
    scene = Scene(str(tmp_path / "wh" / "db.db" / "t"), tmp_path, keyed=keyed, merges=merges, **SIZE)
    make(scene)
    run(scene)
    print(check(scene))
