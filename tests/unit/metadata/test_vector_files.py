"""Index files of deletion vectors: what is replaced, what stays, and damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import index_file_path
from paimon_spark.metadata.vector_files import changed_vectors, read_vectors, write_vectors
from tests.harness.tables import MetadataTable, a_schema

PLACE = (bytes(12), 0)
positions = st.lists(st.integers(0, 100_000), min_size=1, max_size=5, unique=True).map(sorted)


def a_table(**options: str) -> TableHandle:
    return MetadataTable().schema(a_schema(options=options)).open()


def arrays(found: dict[str, Any]) -> dict[str, Any]:
    return {n: None if p is None else np.array(p, np.int64) for n, p in found.items()}


def lists(handle: TableHandle, entries: list[IndexManifestEntry]) -> dict[str, list[int]]:
    found = [item for e in entries for item in read_vectors(handle, e).items()]
    assert len({n for n, _ in found}) == len(found)
    return {n: p.tolist() for n, p in found}


@given(
    first=st.dictionaries(st.sampled_from("abcdef"), positions),
    changes=st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.none() | positions), max_size=3),
    in_one_file=st.booleans(),
    target=st.sampled_from(["1 b", "60 b", "2 mb"]),
    bitmap64=st.sampled_from(["true", "false"]),
)
def test_vectors_are_those_of_a_dictionary(
    first: dict[str, list[int]], changes: list[dict[str, Any]], in_one_file: bool, target: str, bitmap64: str
) -> None:
    options = {"deletion-vector.index-file.target-size": target, "deletion-vectors.bitmap64": bitmap64}
    handle = a_table(**options)
    model = dict(first)
    live = write_vectors(handle, *PLACE, arrays(first), in_one_file=in_one_file)
    for change in changes:
        new, replaced = changed_vectors(handle, PLACE, live, arrays(change), in_one_file=in_one_file)
        assert {e.file_name for e in replaced} <= {e.file_name for e in live}
        live = [e for e in live if e not in replaced] + new
        model = {n: p for n, p in {**model, **change}.items() if p is not None}
        assert lists(handle, live) == model
        assert not in_one_file or len(live) <= 1
    assert len({e.file_name for e in live}) == len(live)


def test_files_without_a_vector_to_change_stay() -> None:
    handle = a_table(**{"deletion-vector.index-file.target-size": "1 b"})
    live = write_vectors(handle, *PLACE, arrays({"a": [1], "b": [2], "c": [3]}), in_one_file=False)
    assert len(live) == 3
    new, replaced = changed_vectors(handle, PLACE, live, arrays({"b": [2, 5]}), in_one_file=False)
    assert [e.deletion_vectors[0].data_file_name for e in replaced if e.deletion_vectors] == ["b"]
    assert lists(handle, new) == {"b": [2, 5]}
    assert changed_vectors(handle, PLACE, live, {"unknown": None}, in_one_file=False) == ([], [])


def test_a_missing_or_wrong_file_is_named() -> None:
    handle = a_table()
    (entry,) = write_vectors(handle, *PLACE, arrays({"a": [1, 2]}), in_one_file=True)
    ranges = tuple(r._replace(cardinality=9) for r in entry.deletion_vectors or ())
    with pytest.raises(CorruptFileError, match="deletes 2 rows, the index manifest says 9"):
        read_vectors(handle, entry._replace(deletion_vectors=ranges))
    handle.store.delete(index_file_path(handle, entry))
    with pytest.raises(CorruptFileError, match="is missing"):
        read_vectors(handle, entry)
    assert read_vectors(handle, entry, {"b"}) == {}
