"""Tables of tiny data files with histories, for expiry and the removal of orphan files. Run with `OUT SCALE`.

`history-expire` has 10,000 files and 1,001 snapshots; `history-orphans` 190,000 files in 6 snapshots and 10,000 that
nothing names.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.bench.history_data import make_history

ORPHANS = 10_000


def main() -> None:
    out, scale = Path(sys.argv[1]), float(sys.argv[2])
    if not (out / "history-expire" / ".done").exists():
        make_history(out / "history-expire", int(10_000 * scale), 1_001)
        (out / "history-expire" / ".done").touch()
    orphans = out / "history-orphans"
    if not (orphans / ".done").exists():
        make_history(orphans, int(190_000 * scale), 6)
        for n in range(int(ORPHANS * scale)):
            (orphans / "bucket-0" / f"data-orphan-{n}.parquet").write_bytes(b"PAR1")
        (orphans / ".done").touch()


if __name__ == "__main__":
    main()
