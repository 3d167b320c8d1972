"""Times in arguments are read in the session's zone, and answers show the instant that was taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import InvalidInputError
from paimon_spark.sql.names import CallContext
from paimon_spark.sql.procedures import call
from tests.harness.clock import age_files

TOKYO = ZoneInfo("Asia/Tokyo")
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _machine_in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    table = made.create_table("d.t", "id BIGINT", options={"bucket": "-1"})
    for n in (1, 2, 3):
        table.write(pa.table({"id": pa.array([n], pa.int64())}))
    table.create_tag("young", snapshot_id=1)
    return made


def shown(moment: datetime, zone: ZoneInfo = TOKYO) -> str:
    """What clocks of a zone show, as users write it."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(("ago", "is_expired"), [(2 * HOUR, False), (-HOUR, True)])
def test_expiry_by_the_clock_of_the_session(catalog: Catalog, ago: timedelta, is_expired: bool) -> None:
    """Tokyo is nine hours ahead: read in UTC, its clock of two hours ago would be seven hours from now."""
    context = CallContext(catalog, time_zone="Asia/Tokyo")
    moment = datetime.now(UTC).replace(microsecond=0) - ago
    found = call(context, "expire_tags", ["d.t"], {"older_than": shown(moment)})
    assert found.rows == (("young" if is_expired else "No expired tags.", moment),)
    assert found.columns.endswith("older_than TIMESTAMP")
    assert [t.name for t in catalog.table("d.t").tags()] == ([] if is_expired else ["young"])


def test_each_procedure_reads_it_so(catalog: Catalog) -> None:
    context = CallContext(catalog, time_zone="Asia/Tokyo")
    table = catalog.table("d.t")
    age_files(Path(table.location.removeprefix("file://")))
    past, soon = (shown(datetime.now(UTC) + d) for d in (-2 * HOUR, HOUR))
    assert call(context, "expire_snapshots", ["d.t"], {"older_than": past, "retain_min": 1}).rows[0][0] == 0
    assert call(context, "expire_snapshots", ["d.t"], {"older_than": soon, "retain_min": 1}).rows[0][0] == 2
    with pytest.raises(paimon_spark.PaimonError, match="that time is not in the past"):
        call(context, "remove_orphan_files", ["d.t"], {"older_than": soon})
    assert call(context, "remove_orphan_files", ["d.t"], {"older_than": past}).rows[0][0] == 0


def test_zones_and_instants_that_are_written_win(catalog: Catalog) -> None:
    context = CallContext(catalog, time_zone="Asia/Tokyo")
    moment = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    for text in ("2020-01-02 03:04:05Z", "2020-01-02 05:04:05+02:00", str(int(moment.timestamp() * 1000))):
        assert call(context, "expire_tags", ["d.t"], {"older_than": text}).rows[0][1] == moment
    given = {"older_than": "2020-01-02 03:04:05", "options": "time-zone=UTC"}
    assert call(context, "expire_snapshots", ["d.t"], given).rows[0][1] == moment


def test_results_of_the_api_show_it(catalog: Catalog) -> None:
    table = catalog.table("d.t", **{"time-zone": "Asia/Tokyo"})
    moment = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    for done in (
        table.expire_tags(older_than=shown(moment)),
        table.expire_snapshots(older_than=shown(moment)),
        table.expire_changelogs(older_than=shown(moment)),
        table.remove_orphan_files(older_than=shown(moment)),
    ):
        assert done.older_than_ms == moment.timestamp() * 1000
        assert "older than 2020-01-02 03:04:05Z" in str(done)


def test_a_procedure_takes_an_age_and_shows_the_moment_that_it_is(catalog: Catalog) -> None:
    context, day, before = CallContext(catalog), timedelta(days=1), datetime.now(UTC) - HOUR / 3_600_000
    found = call(context, "expire_tags", ["d.t"], {"older_than": "1 d"})
    moment = found.rows[0][-1]
    assert found.columns.endswith("older_than TIMESTAMP")
    assert before <= moment + day <= datetime.now(UTC)
    with pytest.raises(InvalidInputError, match="or an age such as 7 d"):
        call(context, "expire_tags", ["d.t"], {"older_than": "1 fortnight"})
