"""Java Paimon writes tables of every kind, and we read what Java reads: versions, projections, filters."""

from __future__ import annotations

import pytest

from tests.interop import tables_append, tables_history, tables_merge_engines, tables_primary_key, tables_types
from tests.interop.comparing import disagreement, version_options
from tests.interop.java_tables import JavaTables
from tests.interop.table_script import Read, TableScript

pytestmark = pytest.mark.interop

SCRIPTS = [
    *tables_append.scripts(),
    *tables_primary_key.scripts(),
    *tables_merge_engines.scripts(),
    *tables_types.scripts(),
    *tables_history.scripts(),
]
READS = [(script, read) for script in SCRIPTS for read in script.reads]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_version_reads_as_java_reads_it(script: TableScript, java_tables: JavaTables) -> None:
    table = java_tables.get(script)
    assert any("rows" in theirs for theirs in table.versions.values())
    problems = {}
    for label, theirs in table.versions.items():
        found = disagreement(
            table.path,
            theirs,
            options=version_options(label),
            unordered=script.unordered,
            may_refuse=script.may_refuse,
        )
        if found is not None:
            problems[label] = found
    assert not problems, _report(table.path, problems)


@pytest.mark.parametrize(("script", "read"), READS, ids=[f"{script}-{read.label}" for script, read in READS])
def test_projections_filters_and_options_read_as_java_reads_them(
    script: TableScript, read: Read, java_tables: JavaTables
) -> None:
    table = java_tables.get(script)
    theirs = java_tables.read(script, read)
    assert "error" not in theirs, theirs["error"]
    options = dict(read.options)
    if read.branch is not None:
        options["branch"] = read.branch
    found = disagreement(
        table.path,
        theirs,
        options=options,
        columns=read.columns,
        where=read.sql,
        unordered=script.unordered,
        may_refuse=script.may_refuse,
    )
    assert found is None, _report(table.path, {read.label: found})


def test_names_of_tables_are_unique() -> None:
    names = [script.name for script in SCRIPTS]
    assert len(names) == len(set(names))


def _report(path: str, problems: dict[str, str]) -> str:
    return "\n\n".join([path, *(f"{label}: {text}" for label, text in problems.items())])
