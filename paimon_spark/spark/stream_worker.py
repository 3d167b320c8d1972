"""What the Python processes of a streaming query pay for their size between batches.

PySpark collects all garbage after every task of a process that it keeps (`pyspark/daemon.py`), which looks at every
object there is: mostly what the imports of this package made, some tens of milliseconds a batch for each process.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final

_DAEMON: Final = "pyspark.daemon"


@cache
def settle() -> bool:
    """Spare what is in memory now from later collections, once in a process; whether it was.

    To be called when a batch's work is done: then everything that batches need was imported. Only processes that
    PySpark's daemon forks are spared: in others, the program's own say counts.
    """
    if not is_forked_by_spark():
        return False
    gc.collect()
    gc.freeze()
    return True


def is_forked_by_spark() -> bool:
    """Whether this process is one of those that PySpark's daemon keeps for tasks."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _DAEMON
