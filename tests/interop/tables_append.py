"""Append tables for Java to write: buckets, partitions, compaction, deletion vectors, row tracking, indexes."""

from __future__ import annotations

from tests.interop.table_script import TableScript, array, map_of, row

T = TableScript


def scripts() -> list[TableScript]:
    """Every append table of the catalogue."""
    return [*_buckets_and_partitions(), *_rewritten(), *_row_identity(), *_statistics()]


def _buckets_and_partitions() -> list[TableScript]:
    unaware = T("append_unaware", "no buckets, three commits", [["id", "BIGINT"], ["s", "STRING"]])
    unaware.write([[i, f"s{i}"] for i in range(50)]).write([[i, None] for i in range(50, 80)]).write([[None, ""]])
    unaware.where("id >= 45 AND id < 55", ["and", [">=", "id", 45], ["<", "id", 55]])
    unaware.where("s IS NULL", ["is null", "s"]).where("id IN (3, 70, 900)", ["in", "id", 3, 70, 900])
    unaware.where("s LIKE 's4%'", ["starts with", "s", "s4"], columns=["s"])
    unaware.read("one column", columns=["s"]).read("columns turned round", columns=["s", "id"])
    unaware.read("incremental", {"incremental-between": "1,3"})

    bucketed = T(
        "append_bucketed",
        "bucket-key of several types, whole-key equality prunes buckets",
        [["a", "INT"], ["b", "STRING"], ["d", "DECIMAL(12, 3)"], ["v", "DOUBLE"]],
        options={"bucket": "4", "bucket-key": "a,b,d"},
    )
    bucketed.write([[i, f"key {i:05d}", f"{i}.125", i / 3] for i in range(40)] + [[None, None, None, None]])
    bucketed.write([[i, "x" * i, None, float(i)] for i in range(20)]).compact()
    bucketed.where(
        "a = 7 AND b = 'key 00007' AND d = 7.125",
        ["and", ["=", "a", 7], ["=", "b", "key 00007"], ["=", "d", "7.125"]],
    )

    partitioned = T(
        "append_partitioned",
        "partitions of STRING, INT and DATE; null, empty, blank and escaped values",
        [["p", "STRING"], ["q", "INT"], ["d", "DATE"], ["v", "INT"]],
        partition=["p", "q", "d"],
    )
    names = [
        "a",
        "",
        "  ",
        None,
        "a/b",
        "c=d",
        "e%2Ff",
        "x y",
        "q?#*",
        "日本",
        "__DEFAULT_PARTITION__",
        ".",
        "a:b",
    ]
    partitioned.write([[name, i, "2024-02-29", i] for i, name in enumerate(names)])
    partitioned.write([["a", None, None, 100], [None, -5, "1969-12-31", 101], ["a", 0, "2024-02-29", 102]])
    partitioned.where("p = 'a'", ["=", "p", "a"]).where("p IS NULL", ["is null", "p"])
    partitioned.where("q > 3 AND q < 8", ["and", [">", "q", 3], ["<", "q", 8]])
    partitioned.where("d = DATE '2024-02-29' AND v <> 4", ["and", ["=", "d", "2024-02-29"], ["<>", "v", 4]])

    typed = T(
        "append_partition_types",
        "one partition column of every type that may be one",
        [
            ["v", "INT"],
            ["b", "BOOLEAN"],
            ["t", "TINYINT"],
            ["l", "BIGINT"],
            ["f", "FLOAT"],
            ["n", "DECIMAL(9, 2)"],
            ["c", "CHAR(3)"],
            ["ts", "TIMESTAMP(3)"],
            ["tm", "TIME(3)"],
            ["x", "VARBINARY(8)"],
        ],
        partition=["b", "t", "l", "f", "n", "c", "ts", "x"],
        java_may_fail="a partition of BINARY type has no text form in Java",
    )
    typed.write([[1, True, -1, 2**40, 1.5, "12.50", "abc", "2024-01-01T01:02:03.004", "01:02:03", None]])
    typed.write([[2, False, 7, -(2**40), -0.25, "-0.01", "d", "1969-12-31T23:59:59.999", None, None]])
    typed.write([[3, None, None, None, None, None, None, None, None, None]])

    legacy = T(
        "append_partition_names",
        "own default partition name and new partition names of dates",
        [["d", "DATE"], ["t", "TIMESTAMP(0)"], ["v", "INT"]],
        partition=["d", "t"],
        options={"partition.default-name": "nothing", "partition.legacy-name": "false"},
    )
    legacy.write([["2024-02-29", "2024-02-29T12:30:00", 1], [None, None, 2], ["1969-12-31", None, 3]])
    legacy.where("d IS NULL", ["is null", "d"])

    directory = T(
        "append_layout_options",
        "data files in a folder of their own, own prefix, compression in the suffix",
        [["p", "INT"], ["v", "STRING"]],
        partition=["p"],
        options={
            "data-file.path-directory": "data",
            "data-file.prefix": "part-",
            "file.suffix.include.compression": "true",
            "file.compression": "lz4",
        },
    )
    directory.write([[1, "a"], [2, "b"]]).write([[1, "c"]])

    overwritten = T(
        "append_overwritten",
        "static, dynamic and whole overwrite, truncation",
        [["p", "STRING"], ["v", "INT"]],
        partition=["p"],
    )
    overwritten.write([["a", 1], ["b", 2], ["c", 3]]).overwrite({"p": "a"}, [["a", 10]])
    overwritten.overwrite({}, [["b", 20], ["d", 40]])
    overwritten.overwrite({}, [["e", 50]], options={"dynamic-partition-overwrite": "false"})
    overwritten.step("truncate").write([["f", 60]])

    return [unaware, bucketed, partitioned, typed, legacy, directory, overwritten]


def _rewritten() -> list[TableScript]:
    compacted = T(
        "append_compacted",
        "small files compacted into one, then more commits; manifests merged",
        [["id", "INT"], ["s", "STRING"]],
        options={"compaction.min.file-num": "2", "manifest.merge-min-count": "3"},
    )
    for i in range(8):
        compacted.write([[i * 10 + j, f"{i}/{j}"] for j in range(10)])
    compacted.compact().write([[1000, "later"]]).step("compactManifests")
    compacted.where("id > 65", [">", "id", 65])

    result = [compacted]
    for name, options in (
        ("append_vectors_32", {"bucket": "-1"}),
        ("append_vectors_64", {"bucket": "-1", "deletion-vectors.bitmap64": "true"}),
        ("append_vectors_bucketed", {"bucket": "2", "bucket-key": "id"}),
        ("append_manifests_orc", {"manifest.format": "orc", "manifest.compression": "zlib"}),
        ("append_manifests_parquet", {"manifest.format": "parquet", "manifest.compression": "gzip"}),
    ):
        vectors = T(
            name,
            "rows deleted by deletion vectors, twice in the same file; then appended and compacted",
            [["id", "INT"], ["p", "STRING"], ["s", "STRING"]],
            partition=["p"],
            options={"deletion-vectors.enabled": "true", **options},
        )
        vectors.write([[i, "ab"[i % 2], f"s{i}"] for i in range(200)])
        vectors.write([[i, "a", "second"] for i in range(200, 230)])
        vectors.delete_rows("id", *range(0, 200, 7), 201).delete_rows("id", 1, 2, 3, 199, 229).tag("deleted")
        vectors.write([[500, "b", "after"]]).compact().delete_rows("id", 500, 198)
        vectors.where("id < 10", ["<", "id", 10]).where("s = 'second'", ["=", "s", "second"], columns=["id"])
        vectors.read("columns", columns=["s"])
        result.append(vectors)
    return result


def _row_identity() -> list[TableScript]:
    tracking = T(
        "append_row_tracking",
        "row ids and sequence numbers, kept through compaction",
        [["id", "INT"], ["s", "STRING"]],
        options={"row-tracking.enabled": "true", "compaction.min.file-num": "2"},
    )
    tracking.write([[i, f"a{i}"] for i in range(5)]).write([[i, f"b{i}"] for i in range(5, 8)])
    tracking.compact().write([[9, "c"]])
    ids = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]
    tracking.read("row ids", columns=ids, java={"rowTracking": True})
    tracking.read("row ids before compaction", {"scan.snapshot-id": "2"}, columns=ids, java={"rowTracking": True})

    evolution = T(
        "append_data_evolution",
        "columns of existing rows written again under the same row ids",
        [["id", "INT"], ["a", "STRING"], ["b", "STRING"], ["c", "INT"]],
        options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
        may_refuse="data-evolution",
    )
    evolution.write([[i, f"a{i}", f"b{i}", i] for i in range(4)]).write([[i, f"a{i}", None, i] for i in range(4, 6)])
    evolution.write([[f"new b{i}"] for i in range(4)], columns=["b"], firstRowId=0).tag("one column")
    evolution.write([[i * 100, f"new a{i}"] for i in range(4)], columns=["c", "a"], firstRowId=0)
    evolution.alter({"do": "add", "name": "d", "type": "DOUBLE"})
    evolution.write([[0.5], [None]], columns=["d"], firstRowId=4)
    evolution.read("two columns", columns=["b", "id"])
    evolution.read("row ids", columns=["id", "_ROW_ID"], java={"rowTracking": True})

    merged = T(
        "append_data_evolution_compacted",
        "data evolution files compacted together",
        [["id", "INT"], ["a", "STRING"], ["b", "STRING"]],
        options={
            "row-tracking.enabled": "true",
            "data-evolution.enabled": "true",
            "compaction.min.file-num": "2",
        },
        may_refuse="data-evolution",
    )
    merged.write([[i, f"a{i}", f"b{i}"] for i in range(3)]).write([[i, f"a{i}", f"b{i}"] for i in range(3, 6)])
    merged.write([[f"x{i}"] for i in range(3)], columns=["b"], firstRowId=0).compact()
    merged.write([[7, "seven", None]])
    return [tracking, evolution, merged]


def _statistics() -> list[TableScript]:
    fields = [["id", "INT"], ["s", "STRING"], ["d", "DOUBLE"], ["a", array("INT")], ["r", row(("x", "INT"))]]
    rows = [[i, f"{'prefix' * 4}{i}", i / 2, [i], [i]] for i in range(30)]
    index = T(
        "append_file_index",
        "bloom filter, bitmap, bsi and range bitmap, embedded and in files beside the data",
        [*fields, ["m", map_of("STRING", "STRING")]],
        options={
            "file-index.bloom-filter.columns": "s",
            "file-index.bitmap.columns": "id",
            "file-index.bsi.columns": "id",
            "file-index.range-bitmap.columns": "d",
            "file-index.in-manifest-threshold": "100 b",
        },
    )
    index.write([[*r, [["k", "v"]]] for r in rows]).write([[None, None, None, None, None, None]])
    index.where("s = 'prefixprefixprefixprefix7'", ["=", "s", "prefix" * 4 + "7"])
    index.where("id = 3 OR id = 29", ["or", ["=", "id", 3], ["=", "id", 29]])
    result = [index]
    for mode in ("none", "counts", "truncate(4)", "full"):
        stats = T(
            "append_stats_" + mode.split("(")[0],
            f"metadata.stats-mode {mode}, NaN and nulls",
            fields,
            options={"metadata.stats-mode": mode, "metadata.stats-keep-first-n-columns": "3"},
        )
        stats.write(rows).write([[100, None, "NaN", None, None], [101, "prefix", "-Infinity", [], [None]]])
        stats.write([[None, "zzz", None, None, None]])
        stats.where("s > 'prefixq'", [">", "s", "prefixq"]).where("d >= 14.5", [">=", "d", 14.5])
        stats.where("id IS NOT NULL AND s IS NULL", ["and", ["is not null", "id"], ["is null", "s"]])
        result.append(stats)
    return result
