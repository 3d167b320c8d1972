"""The contract of permanent views, for every catalog that holds them."""

from __future__ import annotations

import pytest

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import AlreadyExistsError, DatabaseNotFoundError, InvalidInputError, NotFoundError


def check_views(catalog: Catalog) -> None:
    """Create, read, replace and drop views of database `db`, which has none."""
    assert catalog.list_views("db") == []
    made = catalog.create_view("db.v", "SELECT a FROM t", columns="a INT, b STRING COMMENT 'é'", comment="of a")
    assert catalog.view("db.v") == made
    assert (made.query, made.comment, dict(made.dialects)) == ("SELECT a FROM t", "of a", {"spark": "SELECT a FROM t"})
    assert [(f.name, str(f.type)) for f in made.row_type] == [("a", "INT"), ("b", "STRING")]
    assert str(made).splitlines() == ["view db.v (a INT, b STRING)", "  SELECT a FROM t"]
    catalog.create_view("db.w", "SELECT 1", columns="a INT", options={"k": "v"})
    assert catalog.list_views("db") == ["v", "w"]
    assert catalog.view("db.w").options == {"k": "v"}
    with pytest.raises(AlreadyExistsError, match=r"there is a view db\.v; replace it"):
        catalog.create_view("db.v", "SELECT 2", columns="a INT")
    assert catalog.create_view("db.v", "SELECT 2", columns="a INT", replace=True).query == "SELECT 2"
    catalog.create_table("db.t", "a INT")
    with pytest.raises(AlreadyExistsError, match=r"there is a table db\.t"):
        catalog.create_view("db.t", "SELECT 2", columns="a INT")
    with pytest.raises(InvalidInputError, match="has no query"):
        catalog.create_view("db.x", " ", columns="a INT")
    with pytest.raises(DatabaseNotFoundError):
        catalog.create_view("other.v", "SELECT 2", columns="a INT")
    with pytest.raises(NotFoundError, match=r"no view db.vv; did you mean 'v'\?"):
        catalog.view("db.vv")
    catalog.drop_view("db.v")
    catalog.drop_view("db.v", ignore_if_not_exists=True)
    with pytest.raises(NotFoundError, match=r"no view db\.v to drop"):
        catalog.drop_view("db.v")
    assert catalog.list_views("db") == ["w"]
    catalog.drop_view("db.w")
