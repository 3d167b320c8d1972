"""The requests that operations send to an object store, so that their number cannot creep up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from tests.harness.s3_server import counted_requests, make_bucket, s3_server

pytestmark = [pytest.mark.s3, pytest.mark.ci]


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as found:
        make_bucket(found, "counts")
        yield found


def rows(first: int) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + 10)), "v": [str(n) for n in range(10)]})


def test_hot_operations_send_no_more_requests_than_this(options: dict[str, str]) -> None:
    def catalog() -> Catalog:
        return paimon_spark.load_catalog("s3://counts/wh", **options)

    def table() -> Table:
        return catalog().table("db.t")

    def count(act: Callable[[], object]) -> int:
        with counted_requests() as requests:
            act()
        return len(requests)

    made = catalog()
    made.create_database("db")
    made.create_table("db.t", "k BIGINT, v STRING", primary_keys=["k"], options={"bucket": "2"})
    for n in range(3):
        made.table("db.t").write(rows(5 * n))
    again = table()
    again.scan().to_arrow()

    sent = {
        "read": count(lambda: table().scan().to_arrow()),
        "read again": count(lambda: again.scan().to_arrow()),
        "write": count(lambda: table().write(rows(30))),
        "create_tag": count(lambda: table().create_tag("v1")),
        "create_branch": count(lambda: table().create_branch("fix", tag="v1")),
        "write on a branch": count(lambda: table().branch("fix").write(rows(50))),
        "branches": count(lambda: table().branches()),
        "tags": count(lambda: table().tags()),
        "merge_branch": count(lambda: table().merge_branch("fix")),
        "merged already": count(lambda: table().merge_branch("fix")),
        "status": count(lambda: table().status()),
        "delete_branch": count(lambda: table().delete_branch("fix")),
        "expire_snapshots": count(lambda: table().expire_snapshots(retain_max=2, retain_min=1)),
        "list_tables": count(lambda: catalog().list_tables("db")),
    }
    print(sent)
    assert {name: n for name, n in sent.items() if n > MOST[name]} == {}


MOST = {
    "read": 15, "read again": 13, "write": 28, "create_tag": 17, "create_branch": 32, "write on a branch": 31,
    "branches": 6, "tags": 9, "merge_branch": 67, "merged already": 40, "status": 64, "delete_branch": 77,
    "expire_snapshots": 56, "list_tables": 2,
}  # fmt: skip
"""Requests of each operation, the opening of the table included."""
