"""Primary-key tables for Java to write: merge engines, sequence fields, changelog producers, vectors, buckets, levels."""

from __future__ import annotations

from tests.interop.table_script import (
    Row,
    TableScript,
    array,
    delete,
    map_of,
    row,
    update_after,
    update_before,
)

T = TableScript
KV = [["k", "INT NOT NULL"], ["v", "STRING"]]


def scripts() -> list[TableScript]:
    """Every primary-key table of the catalogue."""
    return [
        *_deduplicate(),
        *_sequence(),
        *_partial_update(),
        *_aggregation(),
        *_first_row(),
        *_changelogs(),
        *_vectors(),
        *_bucket_modes(),
        *_shapes(),
    ]


def _deduplicate() -> list[TableScript]:
    plain = T("pk_deduplicate", "upserts and deletes piled up, then compacted", KV, pk=["k"], options={"bucket": "2"})
    plain.pile([[i, f"a{i}"] for i in range(20)]).pile([[i, f"b{i}"] for i in range(0, 20, 3)])
    plain.pile([delete(0, None), delete(99, None), [5, None], update_before(6, "b6"), update_after(7, "u7")])
    plain.compact().pile([[0, "back"], delete(1, None)])
    plain.where("v = 'a4'", ["=", "v", "a4"]).where("k = 6", ["=", "k", 6]).where("v LIKE 'b%'", ["starts with", "v", "b"])
    plain.where("k BETWEEN 3 AND 8 AND v IS NOT NULL", ["and", ["between", "k", 3, 8], ["is not null", "v"]])
    plain.read("value only", columns=["v"]).read("key only", columns=["k"])
    plain.read("incremental", {"incremental-between": "1,3"}).read("since compaction", {"incremental-between": "4,5"})

    keys = T(
        "pk_key_types",
        "a composite key in other than schema order, with long and short strings, partitioned inside the key",
        [
            ["v", "STRING"], ["s", "STRING NOT NULL"], ["d", "DECIMAL(20, 4) NOT NULL"], ["p", "DATE NOT NULL"],
            ["t", "TIMESTAMP(6) NOT NULL"], ["b", "VARBINARY(20) NOT NULL"], ["f", "DOUBLE NOT NULL"], ["o", "BOOLEAN NOT NULL"],
        ],
        pk=["t", "p", "s", "d", "b", "f", "o"],
        partition=["p"],
        options={"bucket": "3"},
    )  # fmt: skip
    values = [
        ["short", "1.5", "2024-01-01", "2024-01-01T00:00:00.000001", "00", 1.0, True],
        ["a good deal longer", "-1.5", "2024-01-01", "1960-01-01T00:00:00.5", "ff00ff", -2.5, False],
        ["日本", "9999999999999999.9999", "1969-12-31", "2024-01-01T00:00:00", "", 0.0, True],
        ["", "0", "1969-12-31", "2024-01-01T00:00:00", "0102030405060708090a", 1e-3, True],
        ["NaN", "0", "1969-12-31", "2024-01-01T00:00:00", "01", "NaN", True],
        ["-inf", "0", "1969-12-31", "2024-01-01T00:00:00", "01", "-Infinity", True],
    ]
    keys.pile([[f"v{i}", *value] for i, value in enumerate(values)])
    keys.pile([["new", *values[0]], delete(None, *values[1]), ["again", *values[4]]])

    thin = T("pk_thin_mode", "keys read from the value columns", [["a", "INT"], ["k", "STRING NOT NULL"], ["p", "INT NOT NULL"], ["b", "INT"]],
             pk=["p", "k"], partition=["p"], options={"bucket": "1", "data-file.thin-mode": "true"})  # fmt: skip
    thin.pile([[i, f"k{i}", i % 2, i] for i in range(10)]).pile([[None, "k3", 1, -3], delete(None, "k4", 0, None)])
    thin.compact().pile([[77, "k3", 1, 77]]).read("columns", columns=["b", "k"])

    result = [plain, keys, thin]
    for data_format in ("orc", "avro"):
        other = T(
            f"pk_{data_format}",
            f"{data_format} data files, nested values, partitioned",
            [["k", "INT NOT NULL"], ["p", "STRING NOT NULL"], ["a", array("STRING")], ["m", map_of("STRING", "BIGINT")], ["r", row(("x", "INT"), ("y", "DATE"))]],
            pk=["k", "p"], partition=["p"], options={"bucket": "2", "file.format": data_format},
        )  # fmt: skip
        other.pile([[i, "ab"[i % 2], [f"e{i}", None], [["k", i]], [i, "2024-01-01"]] for i in range(12)])
        other.pile([[1, "b", None, None, None], delete(2, "a", None, None, None), [3, "b", [], [], [None, None]]])
        other.compact().pile([[4, "a", ["x"], [["y", None]], [4, None]]])
        result.append(other)

    ignore = T("pk_ignore_delete", "ignore-delete keeps deleted rows", KV, pk=["k"], options={"bucket": "1", "ignore-delete": "true"})
    ignore.pile([[1, "a"], [2, "b"]]).pile([delete(1, "a"), [2, "c"], update_before(2, "b")])
    kinds = T("pk_rowkind_field", "the row kind in a column", [*KV, ["op", "STRING"]], pk=["k"], options={"bucket": "1", "rowkind.field": "op"})
    kinds.pile([[1, "a", "+I"], [2, "b", "+I"], [3, "c", "+I"]]).pile([[2, None, "-D"], [1, "a2", "+U"], [3, "c", "-U"]])
    default = T("pk_default_values", "default values of columns", [["k", "INT NOT NULL"], ["v", "STRING", None, "none"], ["n", "INT", None, "42"]], pk=["k"], options={"bucket": "1"})
    default.pile([[1, None, None], [2, "x", 2]]).pile([[2, None, None]])
    only_keys = T("pk_only_keys", "no column outside the key", [["a", "INT NOT NULL"], ["b", "STRING NOT NULL"]], pk=["b", "a"], options={"bucket": "1"})
    only_keys.pile([[1, "x"], [2, "y"], [3, "z"]]).pile([delete(2, "y"), [4, "w"]])
    return [*result, ignore, kinds, default, only_keys]


def _sequence() -> list[TableScript]:
    result = []
    for order in ("ascending", "descending"):
        fields = [["k", "INT NOT NULL"], ["t", "TIMESTAMP(3)"], ["n", "INT"], ["v", "STRING"]]
        script = T(
            f"pk_sequence_{order}",
            f"two sequence fields, {order}; nulls and ties",
            fields,
            pk=["k"],
            options={"bucket": "1", "sequence.field": "t,n", "sequence.field.sort-order": order},
        )
        early, late = "2024-01-01T00:00:00", "2024-06-01T00:00:00"
        script.pile([[1, early, 1, "a1"], [2, late, 1, "a2"], [3, None, None, "a3"], [4, early, 5, "a4"], [5, early, 1, "a5"]])
        script.pile([[1, late, 1, "b1"], [2, early, 9, "b2"], [3, early, None, "b3"], [4, early, 5, "b4"], [5, early, None, "b5"]])
        script.pile([delete(1, early, 1, None), delete(4, late, 1, None), [6, None, 1, "c6"], [6, None, None, "c6 again"]])
        script.compact().pile([[2, "2024-07-01T00:00:00", 1, "d2"], [5, early, 0, "d5"]])
        result.append(script)
    return result


def _partial_update() -> list[TableScript]:
    plain = T(
        "pk_partial_update",
        "nulls leave the old value; deletes remove the row",
        [["k", "INT NOT NULL"], ["a", "INT"], ["b", "STRING"], ["c", "DOUBLE"]],
        pk=["k"],
        options={"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    )
    plain.pile([[1, 1, None, None], [2, None, "b2", None], [3, None, None, None], [6, 6, "six", 6.0]])
    plain.pile([[1, None, "b1", None], [2, 2, None, 2.5], [4, 4, "b4", 4.5], delete(6, None, None, None)])
    plain.pile([[1, 10, None, 1.5], [3, None, "b3", None], [4, None, None, None], [6, None, "reborn", None]])
    plain.compact().pile([[4, 44, None, None], [5, None, None, 5.5], delete(2, None, None, None)])
    plain.read("one column", columns=["c"]).where("b = 'b1'", ["=", "b", "b1"])

    groups = T(
        "pk_partial_update_groups",
        "sequence groups of one and two fields, an aggregated field inside a group, deletes inside a group",
        [["k", "INT NOT NULL"], ["a", "INT"], ["g1", "INT"], ["b", "STRING"], ["s", "INT"], ["g2", "INT"], ["g3", "INT"], ["free", "STRING"]],
        pk=["k"],
        options={
            "bucket": "1", "merge-engine": "partial-update", "fields.g1.sequence-group": "a",
            "fields.g2,g3.sequence-group": "b,s", "fields.s.aggregate-function": "sum",
        },
    )  # fmt: skip
    groups.pile([[1, 1, 5, "x", 10, 1, 1, "f"], [2, 2, 1, "y", 20, 1, 0, None], [3, 3, None, "z", 1, None, None, "f3"]])
    groups.pile([[1, 99, 4, "x2", 5, 1, 2, None], [2, 3, 2, "old", 7, 0, 9, "g"], [3, 4, 1, None, 2, 1, None, None]])
    groups.pile([[1, 7, 6, None, 1, None, None, "h"], [2, None, 3, "zz", None, 3, 3, None], [3, 5, 0, "w", 4, 1, 1, None]])
    groups.pile([delete(2, None, 9, None, None, None, None, None)])
    groups.compact().pile([[1, None, 7, "last", 100, 5, 5, None]])
    groups.read("columns of one group", columns=["a", "k"]).read("no sequence column", columns=["s", "b"])

    removed = T(
        "pk_partial_update_remove_group",
        "a delete through a sequence group removes the whole row",
        [["k", "INT NOT NULL"], ["a", "INT"], ["g1", "INT"], ["b", "STRING"], ["g2", "INT"]],
        pk=["k"],
        options={
            "bucket": "1", "merge-engine": "partial-update", "fields.g1.sequence-group": "a",
            "fields.g2.sequence-group": "b", "partial-update.remove-record-on-sequence-group": "g1",
        },
    )  # fmt: skip
    removed.pile([[1, 1, 1, "a", 1], [2, 2, 5, "b", 1], [3, 3, 1, "c", 1]])
    removed.pile([delete(1, None, 2, None, None), delete(2, None, 4, None, None), delete(3, None, None, None, 3)])
    removed.pile([[1, 10, 3, "back", 2]])
    return [plain, groups, removed]


def _aggregation() -> list[TableScript]:
    functions: list[tuple[str, object, dict[str, str]]] = [
        ("i_sum", "INT", {"aggregate-function": "sum"}),
        ("l_sum", "BIGINT", {"aggregate-function": "sum"}),
        ("n_sum", "DECIMAL(10, 2)", {"aggregate-function": "sum"}),
        ("d_sum", "DOUBLE", {"aggregate-function": "sum", "ignore-retract": "true"}),
        ("i_product", "INT", {"aggregate-function": "product"}),
        ("n_product", "DECIMAL(12, 2)", {"aggregate-function": "product", "ignore-retract": "true"}),
        ("s_max", "STRING", {"aggregate-function": "max", "ignore-retract": "true"}),
        ("d_min", "DATE", {"aggregate-function": "min", "ignore-retract": "true"}),
        ("f_max", "DOUBLE", {"aggregate-function": "max", "ignore-retract": "true"}),
        ("b_max", "VARBINARY(4)", {"aggregate-function": "max", "ignore-retract": "true"}),
        ("last", "STRING", {"aggregate-function": "last_value"}),
        ("last_set", "STRING", {"aggregate-function": "last_non_null_value"}),
        ("first", "STRING", {"aggregate-function": "first_value", "ignore-retract": "true"}),
        ("first_set", "STRING", {"aggregate-function": "first_non_null_value", "ignore-retract": "true"}),
        ("list", "STRING", {"aggregate-function": "listagg", "list-agg-delimiter": "; ", "ignore-retract": "true"}),
        ("list_once", "STRING", {"aggregate-function": "listagg", "distinct": "true", "ignore-retract": "true"}),
        ("all_true", "BOOLEAN", {"aggregate-function": "bool_and", "ignore-retract": "true"}),
        ("any_true", "BOOLEAN", {"aggregate-function": "bool_or", "ignore-retract": "true"}),
        ("bag", array("STRING"), {"aggregate-function": "collect"}),
        ("set", array("STRING"), {"aggregate-function": "collect", "distinct": "true"}),
        ("map", map_of("STRING", "INT"), {"aggregate-function": "merge_map"}),
        ("plain", "INT", {}),
    ]  # fmt: skip
    options = {"bucket": "2", "merge-engine": "aggregation"}
    for name, _, settings in functions:
        options.update({f"fields.{name}.{key}": value for key, value in settings.items()})
    fields = [["k", "STRING NOT NULL"], *[[name, type_] for name, type_, _ in functions]]
    script = T("pk_aggregation", "every simple aggregate function, with retracts", fields, pk=["k"], options=options, unordered=["set"])
    one: list[object] = [
        1, 2**40, "1.10", 0.5, 2, "1.50", "m", "2024-01-05", 1.5, "01", "x", "x", "x", "x", "p", "p", True, False,
        ["p"], ["p"], [["a", 1]], 1,
    ]  # fmt: skip
    two: list[object] = [
        2, -1, "2.20", 0.25, 3, "2.00", "z", "2024-01-01", 0.5, "0101", None, None, None, "y", "q", "p", False, True,
        ["q", "p"], ["q", "p"], [["a", 2], ["b", None]], None,
    ]  # fmt: skip
    three: list[object] = [
        None, 5, None, 8.0, None, None, "", None, "NaN", None, "w", "w", None, None, "", "r", None, None, None, [], None, 3,
    ]  # fmt: skip
    nothing: list[object] = [None] * len(functions)
    script.pile([["a", *one], ["b", *nothing], ["c", *one]])
    script.pile([["a", *two], ["b", *two], ["d", *three]])
    script.pile([["a", *three], ["c", *two]]).pile([delete("a", *one)])
    script.compact().pile([["a", *one], ["b", *three], update_before("c", *two), update_after("c", *three)])
    script.read("two columns", columns=["list", "i_sum"])

    removing = T(
        "pk_aggregation_remove",
        "aggregation.remove-record-on-delete and a default aggregate function",
        [["k", "INT NOT NULL"], ["s", "INT"], ["m", "INT"]],
        pk=["k"],
        options={
            "bucket": "1", "merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true",
            "fields.default-aggregate-function": "sum", "fields.m.aggregate-function": "max",
        },
    )  # fmt: skip
    removing.pile([[1, 1, 1], [2, 2, 2], [3, 3, 3]]).pile([delete(1, 9, 9), [2, 5, 1], delete(3, 0, 0)])
    removing.pile([[3, 1, 1]]).compact().pile([[1, 7, 7]])

    sequenced = T(
        "pk_aggregation_sequence",
        "aggregation in the order of a sequence field",
        [["k", "INT NOT NULL"], ["ts", "BIGINT"], ["last", "STRING"], ["first", "STRING"], ["list", "STRING"]],
        pk=["k"],
        options={
            "bucket": "1", "merge-engine": "aggregation", "sequence.field": "ts",
            "fields.last.aggregate-function": "last_value", "fields.first.aggregate-function": "first_value",
            "fields.list.aggregate-function": "listagg",
        },
    )  # fmt: skip
    sequenced.pile([[1, 5, "five", "five", "5"], [2, 1, "one", "one", "1"]])
    sequenced.pile([[1, 3, "three", "three", "3"], [1, 9, "nine", "nine", "9"], [2, None, "null", "null", "n"]])
    sequenced.pile([[1, 4, "four", "four", "4"]])

    nested = T(
        "pk_aggregation_nested",
        "nested_update by key and without, nested_partial_update, merge_map_with_keytime",
        [
            ["k", "INT NOT NULL"],
            ["orders", array(row(("id", "INT"), ("n", "INT"), ("s", "STRING")))],
            ["log", array(row(("x", "INT"), ("y", "STRING")))],
            ["parts", array(row(("id", "INT"), ("n", "INT"), ("s", "STRING")))],
        ],
        pk=["k"],
        options={
            "bucket": "1", "merge-engine": "aggregation", "fields.orders.aggregate-function": "nested_update",
            "fields.orders.nested-key": "id", "fields.log.aggregate-function": "nested_update",
            "fields.parts.aggregate-function": "nested_partial_update", "fields.parts.nested-key": "id",
        },
        unordered=["orders", "log", "parts"],
        may_refuse="nested",
    )  # fmt: skip
    nested.pile([[1, [[1, 1, "a"], [2, 2, "b"]], [[1, "x"]], [[1, 1, None]]], [2, None, None, None]])
    nested.pile([[1, [[2, 22, None]], [[1, "x"], [2, "y"]], [[1, None, "s"], [2, 2, None]]], [2, [[9, 9, "z"]], None, [[9, None, None]]]])
    nested.pile([[1, [[3, 3, "c"]], None, [[2, None, "t"]]]])
    return [script, removing, sequenced, nested]


def _first_row() -> list[TableScript]:
    looked_up = T("pk_first_row", "first-row with the lookup changelog", KV, pk=["k"], options={"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"})
    looked_up.write([[1, "first"], [2, "first"]]).write([[1, "second"], [3, "first"]]).write([[3, "second"], [2, "third"]])
    piled = T("pk_first_row_level_0", "rows of level 0 are invisible until compaction", KV, pk=["k"], options={"bucket": "1", "merge-engine": "first-row", "ignore-delete": "true"})
    piled.write([[1, "first"], [2, "first"]]).pile([[1, "second"], [3, "unseen"], delete(2, None)]).compact().pile([[4, "unseen"]])
    return [looked_up, piled]


def _changelogs() -> list[TableScript]:
    result = []
    for producer, options in (
        ("input", {}),
        ("lookup", {}),
        ("full-compaction", {"full-compaction.delta-commits": "2"}),
    ):
        script = T(
            f"pk_changelog_{producer.replace('-', '_')}",
            f"changelog-producer {producer}",
            [*KV, ["n", "INT"]],
            pk=["k"],
            options={"bucket": "2", "changelog-producer": producer, **options},
        )
        script.write([[1, "a", 1], [2, "b", 2], [3, "c", 3]], identifier=1)
        script.write([update_before(1, "a", 1), update_after(1, "a2", 1), delete(2, "b", 2)], identifier=2)
        script.write([[4, "d", 4], [2, "b again", 2], [1, "a2", 1]], identifier=3).write([[5, "e", None]], identifier=4)
        script.read("incremental", {"incremental-between": "1,4"})
        script.read("incremental delta", {"incremental-between": "1,4", "incremental-between-scan-mode": "delta"})
        script.read("incremental diff", {"incremental-between": "1,4", "incremental-between-scan-mode": "diff"})
        result.append(script)
    summed = T(
        "pk_lookup_sum",
        "lookup compaction writes merged rows above the old ones: only the lowest level counts",
        [["k", "INT NOT NULL"], ["s", "INT"]],
        pk=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.s.aggregate-function": "sum", "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "4"},
    )  # fmt: skip
    summed.write([[1, 100], [2, 5]]).compact().write([[1, 10]]).pile([[1, 1], [3, 3]]).write([[2, 2]]).pile([[2, 1]])
    return [*result, summed]


def _vectors() -> list[TableScript]:
    result = []
    for name, options in (
        ("pk_vectors_32", {}),
        ("pk_vectors_64", {"deletion-vectors.bitmap64": "true"}),
        ("pk_vectors_partial_update", {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}),
        ("pk_vectors_merge_on_read", {"deletion-vectors.merge-on-read": "true"}),
    ):
        script = T(
            name,
            "deletion vectors: level 0 is skipped, vectors applied",
            [["k", "INT NOT NULL"], ["v", "STRING"], ["n", "INT"]],
            pk=["k"],
            options={"bucket": "2", "deletion-vectors.enabled": "true", **options},
            may_refuse="merge-on-read" if "merge_on_read" in name else None,
        )
        script.write([[i, f"a{i}", i] for i in range(60)])
        script.write([[i, f"b{i}", None] for i in range(0, 60, 6)] + [delete(1, None, None), delete(59, None, None)])
        script.write([delete(0, None, None), [61, "c61", 1], [7, "c7", 2]]).tag("three")
        script.pile([[8, "invisible", 3], delete(9, None, None)]).compact().write([[10, "d10", 4]])
        script.where("v = 'b6'", ["=", "v", "b6"]).where("k >= 55", [">=", "k", 55]).where("n = 2", ["=", "n", 2])
        script.read("columns", columns=["n"])
        result.append(script)
    return result


def _bucket_modes() -> list[TableScript]:
    dynamic = T("pk_dynamic_bucket", "a key stays in its bucket by the hash index", KV, pk=["k"], options={"bucket": "-1", "dynamic-bucket.target-row-num": "5"})
    dynamic.write([[i, f"a{i}"] for i in range(12)]).write([[i, f"b{i}"] for i in range(6, 18)]).write([delete(3, None), [17, "c17"]]).compact()
    dynamic.where("k = 16", ["=", "k", 16])
    across = T(
        "pk_cross_partition",
        "a key moves from one partition to another",
        [["p", "STRING"], ["k", "INT NOT NULL"], ["v", "STRING"]],
        pk=["k"],
        partition=["p"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
        java_may_fail="the cross-partition index needs a key-value store that this bundle may lack",
    )
    across.write([["a", i, f"a{i}"] for i in range(10)]).write([["b", i, f"b{i}"] for i in range(5, 12)]).write([["a", 5, "back"], delete("b", 6, None)])
    across.compact()
    postponed = T(
        "pk_postpone_bucket",
        "rows wait in the postpone bucket until compaction gives them real ones",
        [["p", "STRING NOT NULL"], *KV],
        pk=["p", "k"],
        partition=["p"],
        options={"bucket": "-2"},
    )
    postponed.write([["x", i, f"a{i}"] for i in range(8)]).write([["y", 1, "y1"]]).compact()
    postponed.write([["x", 1, "waiting"], delete("x", 2, None)]).tag("waiting").compact()
    rescaled = T("pk_rescaled", "the bucket number changes for new partitions", [["p", "INT NOT NULL"], *KV], pk=["p", "k"], partition=["p"], options={"bucket": "1"})
    rescaled.write([[1, i, f"a{i}"] for i in range(10)]).alter({"do": "set", "name": "bucket", "value": "3"})
    rescaled.overwrite({"p": "2"}, [[2, i, f"b{i}"] for i in range(10)])
    rescaled.where("p = 1 AND k = 4", ["and", ["=", "p", 1], ["=", "k", 4]]).where("p = 2 AND k = 4", ["and", ["=", "p", 2], ["=", "k", 4]])
    result = [dynamic, across, postponed, rescaled]
    for function in ("mod", "hive"):
        other = T(f"pk_bucket_{function}", f"bucket-function.type {function}", KV, pk=["k"], options={"bucket": "3", "bucket-key": "k", "bucket-function.type": function})
        other.write([[i, f"a{i}"] for i in range(-5, 20)]).write([[i, f"b{i}"] for i in range(0, 20, 4)])
        other.where("k = 8", ["=", "k", 8]).where("k IN (-5, 3)", ["in", "k", -5, 3])
        result.append(other)
    return result


def _shapes() -> list[TableScript]:
    levels = T(
        "pk_levels",
        "many commits with automatic compaction: files on several levels, avro on level 0",
        KV,
        pk=["k"],
        options={
            "bucket": "1", "num-sorted-run.compaction-trigger": "3", "num-levels": "4", "file.format.per.level": "0:avro",
            "snapshot.num-retained.max": "100", "file.compression.per.level": "0:snappy,3:zstd",
        },
    )  # fmt: skip
    for j in range(14):
        rows: list[Row] = [[(i * 7 + j) % 60, f"c{j}-{i}"] for i in range(15)]
        levels.write([*rows, delete((j * 3) % 60, None)])
    small = T(
        "pk_many_files",
        "small target files: several files to a run, some not overlapping",
        [*KV, ["n", "BIGINT"]],
        pk=["k"],
        options={"bucket": "1", "target-file-size": "1 kb", "num-sorted-run.compaction-trigger": "4", "write-buffer-size": "64 kb", "page-size": "4 kb"},
    )  # fmt: skip
    for j in range(6):
        small.write([[(i * 13 + j * 400) % 2000, f"value {j} of {i}", i] for i in range(400)])
    small.where("k BETWEEN 100 AND 120", ["between", "k", 100, 120]).where("n = 7", ["=", "n", 7])
    return [levels, small]
