"""Primary-key tables for Java to write: deduplicate, sequence fields, changelogs, vectors, buckets, levels."""

from __future__ import annotations

from tests.interop.table_script import Row, TableScript, array, delete, map_of, row, update_after, update_before

T = TableScript
KV = [["k", "INT NOT NULL"], ["v", "STRING"]]


def scripts() -> list[TableScript]:
    """Every primary-key table but those of the other merge engines."""
    return [
        *_deduplicate(),
        *_sequence(),
        *_changelogs(),
        *_vectors(),
        *_bucket_modes(),
        *_shapes(),
    ]


def _deduplicate() -> list[TableScript]:
    plain = T(
        "pk_deduplicate",
        "upserts and deletes piled up, then compacted",
        KV,
        pk=["k"],
        options={"bucket": "2"},
    )
    plain.pile([[i, f"a{i}"] for i in range(20)]).pile([[i, f"b{i}"] for i in range(0, 20, 3)])
    plain.pile([delete(0, None), delete(99, None), [5, None], update_before(6, "b6"), update_after(7, "u7")])
    plain.compact().pile([[0, "back"], delete(1, None)])
    plain.where("v = 'a4'", ["=", "v", "a4"]).where("k = 6", ["=", "k", 6]).where(
        "v LIKE 'b%'", ["starts with", "v", "b"]
    )
    plain.where("k BETWEEN 3 AND 8 AND v IS NOT NULL", ["and", ["between", "k", 3, 8], ["is not null", "v"]])
    plain.read("value only", columns=["v"]).read("key only", columns=["k"])
    plain.read("incremental", {"incremental-between": "1,3"}).read("since compaction", {"incremental-between": "4,5"})

    keys = T(
        "pk_key_types",
        "a composite key in other than schema order, with long and short strings, partitioned inside the key",
        [
            ["v", "STRING"],
            ["s", "STRING NOT NULL"],
            ["d", "DECIMAL(20, 4) NOT NULL"],
            ["p", "DATE NOT NULL"],
            ["t", "TIMESTAMP(6) NOT NULL"],
            ["b", "VARBINARY(20) NOT NULL"],
            ["f", "DOUBLE NOT NULL"],
            ["o", "BOOLEAN NOT NULL"],
        ],
        pk=["t", "p", "s", "d", "b", "f", "o"],
        partition=["p"],
        options={"bucket": "3"},
    )
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

    thin = T(
        "pk_thin_mode",
        "keys read from the value columns",
        [["a", "INT"], ["k", "STRING NOT NULL"], ["p", "INT NOT NULL"], ["b", "INT"]],
        pk=["p", "k"],
        partition=["p"],
        options={"bucket": "1", "data-file.thin-mode": "true"},
    )
    thin.pile([[i, f"k{i}", i % 2, i] for i in range(10)]).pile([[None, "k3", 1, -3], delete(None, "k4", 0, None)])
    thin.compact().pile([[77, "k3", 1, 77]]).read("columns", columns=["b", "k"])

    result = [plain, keys, thin]
    for data_format in ("orc", "avro"):
        other = T(
            f"pk_{data_format}",
            f"{data_format} data files, nested values, partitioned",
            [
                ["k", "INT NOT NULL"],
                ["p", "STRING NOT NULL"],
                ["a", array("STRING")],
                ["m", map_of("STRING", "BIGINT")],
                ["r", row(("x", "INT"), ("y", "DATE"))],
            ],
            pk=["k", "p"],
            partition=["p"],
            options={"bucket": "2", "file.format": data_format},
        )
        other.pile([[i, "ab"[i % 2], [f"e{i}", None], [["k", i]], [i, "2024-01-01"]] for i in range(12)])
        other.pile([[1, "b", None, None, None], delete(2, "a", None, None, None), [3, "b", [], [], [None, None]]])
        other.compact().pile([[4, "a", ["x"], [["y", None]], [4, None]]])
        result.append(other)

    ignore = T(
        "pk_ignore_delete",
        "ignore-delete keeps deleted rows",
        KV,
        pk=["k"],
        options={"bucket": "1", "ignore-delete": "true"},
    )
    ignore.pile([[1, "a"], [2, "b"]]).pile([delete(1, "a"), [2, "c"], update_before(2, "b")])
    kinds = T(
        "pk_rowkind_field",
        "the row kind in a column",
        [*KV, ["op", "STRING"]],
        pk=["k"],
        options={"bucket": "1", "rowkind.field": "op"},
    )
    kinds.pile([[1, "a", "+I"], [2, "b", "+I"], [3, "c", "+I"]]).pile(
        [[2, None, "-D"], [1, "a2", "+U"], [3, "c", "-U"]]
    )
    default = T(
        "pk_default_values",
        "default values of columns",
        [["k", "INT NOT NULL"], ["v", "STRING", None, "none"], ["n", "INT", None, "42"]],
        pk=["k"],
        options={"bucket": "1"},
    )
    default.pile([[1, None, None], [2, "x", 2]]).pile([[2, None, None]])
    only_keys = T(
        "pk_only_keys",
        "no column outside the key",
        [["a", "INT NOT NULL"], ["b", "STRING NOT NULL"]],
        pk=["b", "a"],
        options={"bucket": "1"},
    )
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
        script.pile(
            [
                [1, early, 1, "a1"],
                [2, late, 1, "a2"],
                [3, None, None, "a3"],
                [4, early, 5, "a4"],
                [5, early, 1, "a5"],
            ]
        )
        script.pile(
            [
                [1, late, 1, "b1"],
                [2, early, 9, "b2"],
                [3, early, None, "b3"],
                [4, early, 5, "b4"],
                [5, early, None, "b5"],
            ]
        )
        script.pile(
            [
                delete(1, early, 1, None),
                delete(4, late, 1, None),
                [6, None, 1, "c6"],
                [6, None, None, "c6 again"],
            ]
        )
        script.compact().pile([[2, "2024-07-01T00:00:00", 1, "d2"], [5, early, 0, "d5"]])
        result.append(script)
    return result


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
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.s.aggregate-function": "sum",
            "changelog-producer": "lookup",
            "num-sorted-run.compaction-trigger": "4",
        },
    )
    summed.write([[1, 100], [2, 5]]).compact().write([[1, 10]]).pile([[1, 1], [3, 3]]).write([[2, 2]]).pile([[2, 1]])
    return [*result, summed]


def _vectors() -> list[TableScript]:
    result = []
    for name, options in (
        ("pk_vectors_32", {}),
        ("pk_vectors_64", {"deletion-vectors.bitmap64": "true"}),
        (
            "pk_vectors_partial_update",
            {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ),
        ("pk_manifests_orc", {"manifest.format": "orc"}),
        ("pk_manifests_parquet", {"manifest.format": "PARQUET"}),
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
    dynamic = T(
        "pk_dynamic_bucket",
        "a key stays in its bucket by the hash index",
        KV,
        pk=["k"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    )
    dynamic.write([[i, f"a{i}"] for i in range(12)]).write([[i, f"b{i}"] for i in range(6, 18)]).write(
        [delete(3, None), [17, "c17"]]
    ).compact()
    dynamic.where("k = 16", ["=", "k", 16])
    acrosses = []
    across = T(
        "pk_cross_partition",
        "a key moves from one partition to another",
        [["p", "STRING"], ["k", "INT NOT NULL"], ["v", "STRING"]],
        pk=["k"],
        partition=["p"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
        java_may_fail="the cross-partition index needs a key-value store that this bundle may lack",
    )
    across.write([["a", i, f"a{i}"] for i in range(10)]).write([["b", i, f"b{i}"] for i in range(5, 12)]).write(
        [["a", 5, "back"], delete("b", 6, None)]
    )
    across.compact()
    across.write([["c", i, f"c{i}"] for i in range(3, 30)] + [["a", 29, "back"], ["c", 29, "and forth"]])
    across.write([[None, 29, "nowhere"], ["a", 28, None], delete("b", 11, None), delete("c", 3, None)])
    across.overwrite({"p": "c"}, [["c", 5, "over"], ["c", 40, "new"]]).write([["b", 40, "moved"], ["a", 3, "again"]])
    for engine in ("partial-update", "aggregation", "first-row"):
        other = T(
            f"pk_cross_partition_{engine.replace('-', '_')}",
            "rows of a key stay in its partition",
            [["p", "STRING"], ["k", "INT NOT NULL"], ["v", "STRING"], ["w", "INT"]],
            pk=["k"],
            partition=["p"],
            options={"bucket": "-1", "dynamic-bucket.target-row-num": "5", "merge-engine": engine},
            java_may_fail="the cross-partition index needs a key-value store that this bundle may lack",
        )
        other.write([["a", i, f"a{i}", i] for i in range(8)] + [["b", 1, None, 10], ["b", 9, "b9", None]])
        other.write([["b", i, f"b{i}", None] for i in range(5, 12)]).compact().write(
            [["c", 0, None, 7], ["a", 20, "n", 1]]
        )
        acrosses.append(other)
    for engine in ("partial-update", "aggregation", "deduplicate"):
        options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "merge-engine": engine}
        if engine != "deduplicate":
            options[f"{engine}.remove-record-on-delete"] = "true"
        other = T(
            f"pk_cross_partition_deleted_{engine.replace('-', '_')}",
            "a deleted key is unknown to the next job, which may give it another bucket",
            [["p", "STRING"], ["k", "INT NOT NULL"], ["v", "STRING"], ["w", "INT"]],
            pk=["k"],
            partition=["p"],
            options=options,
            java_may_fail="the cross-partition index needs a key-value store that this bundle may lack",
        )
        other.write([delete("x", 2, "gone", 0)])
        other.write([["x", 1, "one", 1], ["x", 3, "three", 3], ["x", 2, None, None]])
        other.write([delete("x", 1, None, None), ["x", 4, "four", 4], ["x", 5, "five", 5]])
        other.write([["y", 1, None, 9], ["y", 2, "moved", None], delete("y", 3, "gone", 7), ["x", 3, None, None]])
        acrosses.append(other)
    postponed = T(
        "pk_postpone_bucket",
        "rows wait in the postpone bucket until compaction gives them real ones",
        [["p", "STRING NOT NULL"], *KV],
        pk=["p", "k"],
        partition=["p"],
        options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    )
    postponed.write([["x", i, f"a{i}"] for i in range(8)]).write([["y", 1, "y1"]]).compact(buckets=1)
    postponed.write([["x", 1, "waiting"], delete("x", 2, None)]).tag("waiting").compact(buckets=1)
    postponed.overwrite({"p": "x"}, [["x", 3, "over"]]).write([["x", 4, "more"], ["z", 1, None]]).compact(buckets=1)
    rescaled = T(
        "pk_rescaled",
        "the bucket number changes for new partitions",
        [["p", "INT NOT NULL"], *KV],
        pk=["p", "k"],
        partition=["p"],
        options={"bucket": "1"},
    )
    rescaled.write([[1, i, f"a{i}"] for i in range(10)]).alter({"do": "set", "name": "bucket", "value": "3"})
    rescaled.overwrite({"p": "2"}, [[2, i, f"b{i}"] for i in range(10)])
    rescaled.where("p = 1 AND k = 4", ["and", ["=", "p", 1], ["=", "k", 4]]).where(
        "p = 2 AND k = 4", ["and", ["=", "p", 2], ["=", "k", 4]]
    )
    result = [dynamic, across, *acrosses, postponed, rescaled]
    for function in ("mod", "hive"):
        other = T(
            f"pk_bucket_{function}",
            f"bucket-function.type {function}",
            KV,
            pk=["k"],
            options={"bucket": "3", "bucket-key": "k", "bucket-function.type": function},
        )
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
            "bucket": "1",
            "num-sorted-run.compaction-trigger": "3",
            "num-levels": "4",
            "file.format.per.level": "0:avro",
            "snapshot.num-retained.max": "100",
            "file.compression.per.level": "0:snappy,3:zstd",
        },
    )
    for j in range(14):
        rows: list[Row] = [[(i * 7 + j) % 60, f"c{j}-{i}"] for i in range(15)]
        levels.write([*rows, delete((j * 3) % 60, None)])
    small = T(
        "pk_many_files",
        "small target files: several files to a run, some not overlapping",
        [*KV, ["n", "BIGINT"]],
        pk=["k"],
        options={
            "bucket": "1",
            "target-file-size": "1 kb",
            "num-sorted-run.compaction-trigger": "4",
            "write-buffer-size": "64 kb",
            "page-size": "4 kb",
        },
    )
    for j in range(6):
        small.write([[(i * 13 + j * 400) % 2000, f"value {j} of {i}", i] for i in range(400)])
    small.where("k BETWEEN 100 AND 120", ["between", "k", 100, 120]).where("n = 7", ["=", "n", 7])
    return [levels, small]
