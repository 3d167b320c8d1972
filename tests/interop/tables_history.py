"""Tables with a past for Java to write: schema changes, tags, branches, expiry, rollback."""

from __future__ import annotations

from typing import Any

from tests.interop.table_script import TableScript, array, delete, map_of, row

T = TableScript
KV = [["k", "INT NOT NULL"], ["v", "STRING"]]
BUCKET: dict[str, str] = {"bucket": "1"}


def scripts() -> list[TableScript]:
    """Every table with a past."""
    return [*_schema_changes(), *_tags(), *_branches(), *_snapshots()]


def _add(name: str | list[str], type_: Any, **more: Any) -> dict[str, Any]:
    return {"do": "add", "name": name, "type": type_, **more}


def _retype(name: str | list[str], type_: Any) -> dict[str, Any]:
    return {"do": "retype", "name": name, "type": type_}


def _rename(name: str | list[str], to: str) -> dict[str, Any]:
    return {"do": "rename", "name": name, "to": to}


def _drop(name: str | list[str]) -> dict[str, Any]:
    return {"do": "drop", "name": name}


def _set(name: str, value: str) -> dict[str, Any]:
    return {"do": "set", "name": name, "value": value}


def _schema_changes() -> list[TableScript]:
    result = []
    for data_format in ("parquet", "orc", "avro"):
        script = T(
            f"evolved_append_{data_format}",
            "added, renamed, dropped, moved and re-added columns; old files kept",
            [["id", "INT"], ["a", "INT"], ["b", "STRING"], ["f", "FLOAT"], ["gone", "STRING"]],
            options={"file.format": data_format},
        )
        script.write([[1, 10, "one", 1.5, "g1"], [2, None, None, None, None]])
        script.alter(_add("c", "DECIMAL(10, 2)", comment="added"), _rename("b", "b2"))
        script.write([[3, 30, "three", 3.5, "g3", "3.33"]])
        script.alter(_retype("a", "BIGINT"), _retype("f", "DOUBLE"), _drop("gone")).tag("retyped")
        script.write([[4, 40000000000, "four", 4.25, "4.44"]])
        script.alter(
            _add("gone", "INT", after="id"),
            _add("b", "STRING", first=True),
            {"do": "comment", "name": "a", "value": "was INT"},
        )
        script.write([["new b", 5, 555, 50, "five", 5.0, "5.55"]])
        script.alter({"do": "move", "name": "c", "first": True}, _rename("b2", "x"), _rename("b", "b2"))
        script.write([["6.66", "b", 6, 666, 60, "six", 6.0]])
        script.where("a >= 30", [">=", "a", 30]).where("gone = 555", ["=", "gone", 555]).where(
            "f = 1.5", ["=", "f", 1.5]
        )
        script.where("c IS NULL", ["is null", "c"]).where("x = 'three'", ["=", "x", "three"], columns=["id"])
        result.append(script)

    keyed = T(
        "evolved_pk",
        "merges across schemas, the key renamed",
        [["k", "INT NOT NULL"], ["a", "INT"], ["b", "STRING"]],
        pk=["k"],
        options=BUCKET,
    )
    keyed.pile([[1, 1, "x"], [2, 2, "y"], [3, 3, "z"]])
    keyed.alter(_add("c", "STRING"), _retype("a", "BIGINT"))
    keyed.pile([[2, 20, "y2", "c2"], delete(3, None, None, None), [4, 4, "w", None]])
    keyed.alter(_rename("b", "bb"), _drop("c"), _set("file.format", "avro"))
    keyed.pile([[1, 10**12, "x3"], [5, None, None]]).tag("three schemas")
    keyed.alter(_add("c", "INT"), {"do": "move", "name": "bb", "first": True}).pile([["moved", 5, 5, 55]])
    keyed.compact().pile([["after", 6, 6, 66]]).where("bb = 'y2'", ["=", "bb", "y2"])

    groups = T(
        "evolved_partial_update",
        "a sequence group named by columns that were added later",
        [["k", "INT NOT NULL"], ["a", "INT"], ["g", "INT"]],
        pk=["k"],
        options={**BUCKET, "merge-engine": "partial-update", "fields.g.sequence-group": "a"},
    )
    groups.pile([[1, 1, 1], [2, 2, 2]])
    groups.alter(_add("b", "STRING"), _add("h", "INT"), _set("fields.h.sequence-group", "b"))
    groups.pile([[1, None, 2, "b1", 1], [2, 9, 1, "b2", 1]]).pile([[1, 5, 1, "old", 0], [2, None, None, "new", 2]])

    nested = T(
        "evolved_nested",
        "fields of rows inside rows, arrays and maps added, renamed, dropped and retyped",
        [
            ["id", "INT"],
            ["r", row(("a", "INT"), ("b", "STRING"), ("n", row(("x", "INT"), ("y", "INT"))))],
            ["l", array(row(("a", "INT"), ("b", "STRING")))],
            ["m", map_of("STRING", row(("a", "INT"), ("b", "STRING")))],
        ],
    )
    nested.write([[1, [1, "b", [1, 2]], [[1, "b"], None], [["k", [1, "b"]]]], [2, None, None, None]])
    nested.alter(_add(["r", "c"], "DOUBLE"), _add(["r", "n", "z"], "INT"), _rename(["r", "b"], "bb"))
    nested.alter(_add(["l", "element", "c"], "INT"), _add(["m", "value", "c"], "INT"))
    nested.write([[3, [3, "b3", [3, 3, 3], 0.5], [[3, "b", 3]], [["k", [3, "b", 3]]]]])
    nested.alter(_retype(["r", "a"], "BIGINT"), _drop(["r", "n", "x"]), _drop(["l", "element", "b"]))
    nested.write([[4, [2**40, "b4", [4, 4], 4.5], [[4, 4]], [["k", [4, "b", 4]]]]])
    return [*result, keyed, groups, nested, *_retyped()]


def _retyped() -> list[TableScript]:
    """Every change of type that Java allows, each with old values that are easy and ones that are not."""
    changes: list[tuple[str, str, list[Any]]] = [
        ("TINYINT", "INT", [1, -128]),
        ("SMALLINT", "BIGINT", [1, -32768]),
        ("INT", "BIGINT", [1, -(2**31)]),
        ("INT", "DOUBLE", [1, 2**31 - 1]),
        ("INT", "DECIMAL(12, 2)", [1, -7]),
        ("INT", "STRING", [1, -7]),
        ("BIGINT", "STRING", [2**62, -1]),
        ("BIGINT", "DECIMAL(20, 0)", [2**62, -1]),
        ("FLOAT", "DOUBLE", [0.5, -1.25]),
        ("DOUBLE", "STRING", [0.5, 1e300]),
        ("FLOAT", "STRING", [0.5, -1.25]),
        ("DECIMAL(5, 2)", "DECIMAL(10, 2)", ["1.50", "-999.99"]),
        ("DECIMAL(5, 2)", "DECIMAL(10, 4)", ["1.50", "-999.99"]),
        ("DECIMAL(5, 2)", "STRING", ["1.50", "-0.01"]),
        ("DECIMAL(5, 2)", "DOUBLE", ["1.50", "-0.25"]),
        ("DATE", "STRING", ["2024-02-29", "1969-12-31"]),
        ("DATE", "TIMESTAMP(3)", ["2024-02-29", "1969-12-31"]),
        ("TIMESTAMP(3)", "STRING", ["2024-02-29T01:02:03.004", "1969-12-31T23:59:59.999"]),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", ["2024-02-29T01:02:03.004005", "1969-12-31T23:59:59.999999"]),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", ["2024-02-29T01:02:03.004", "1969-12-31T23:59:59.999"]),
        ("TIMESTAMP(3)", "DATE", ["2024-02-29T01:02:03.004", "1969-12-31T23:59:59.999"]),
        ("TIME(3)", "STRING", ["12:34:56.789", "00:00:00"]),
        ("BOOLEAN", "STRING", [True, False]),
        ("BOOLEAN", "INT", [True, False]),
        ("STRING", "INT", ["12", "-3"]),
        ("STRING", "BIGINT", ["12", "-7"]),
        ("STRING", "DOUBLE", ["0.5", "1e3"]),
        ("STRING", "DECIMAL(6, 2)", ["1.5", "-0.01"]),
        ("STRING", "BOOLEAN", ["true", "false"]),
        ("STRING", "DATE", ["2024-02-29", "1969-12-31"]),
        ("STRING", "TIMESTAMP(3)", ["2024-02-29 01:02:03.004", "1969-12-31 23:59:59"]),
        ("STRING", "BYTES", ["abc", "日"]),
        ("STRING", "VARCHAR(3)", ["abcdef", "日本語です"]),
        ("CHAR(4)", "STRING", ["abcd", "x"]),
        ("VARCHAR(4)", "VARCHAR(10)", ["abcd", "x"]),
        ("BYTES", "VARBINARY(2)", ["00010203", ""]),
        ("BINARY(2)", "BYTES", ["0001", "ffff"]),
        ("BIGINT", "INT", [1, -5]),
        ("DOUBLE", "FLOAT", [0.5, 1e300]),
        ("DOUBLE", "INT", [1.9, -1.9]),
        ("DECIMAL(10, 4)", "DECIMAL(5, 2)", ["1.5555", "-0.0050"]),
        ("DECIMAL(10, 2)", "INT", ["1.99", "-1.99"]),
    ]
    result = []
    for data_format in ("parquet", "orc", "avro"):
        fields = [["id", "INT"], *[[f"c{i}", before] for i, (before, _, _) in enumerate(changes)]]
        script = T(
            f"evolved_types_{data_format}",
            "every change of type that Java allows",
            fields,
            options={"file.format": data_format},
        )
        script.write([[0, *[values[0] for _, _, values in changes]], [1, *[values[1] for _, _, values in changes]]])
        script.write([[2, *[None] * len(changes)]])
        for i, (_, after, _) in enumerate(changes):
            script.alter(_retype(f"c{i}", after), mayFail=True)
        result.append(script)
    return result


def _tags() -> list[TableScript]:
    expired = T("tags_expired", "all snapshots but the last expired, tags keep theirs", KV, pk=["k"], options=BUCKET)
    expired.pile([[1, "a"], [2, "b"]]).tag("v1")
    expired.pile([[2, "b2"], [3, "c"]]).tag("v2", retained="PT24H").tag("v2-again", snapshot=2)
    expired.pile([delete(1, None)]).tag("doomed").compact().tag("compacted", retained="P10DT2H3M4.005S")
    expired.pile([[9, "z"]]).step("expireSnapshots", retain=1).step("deleteTag", name="doomed")
    expired.step("renameTag", name="v2", to="second")

    live = T(
        "tags_live",
        "tag names with dots, dashes and other alphabets, of old snapshots and new",
        [["id", "INT"]],
    )
    live.write([[1]]).tag("release-1.0").write([[2]]).tag("日本").write([[3]]).tag("2024-01-01").tag(
        "first", snapshot=1
    )
    live.read("between tags", {"incremental-between": "release-1.0,2024-01-01"})
    live.read("version of a tag", {"scan.version": "first"}).read("version of a snapshot", {"scan.version": "2"})

    automatic = T(
        "tags_automatic",
        "tags made by watermark, two kept",
        KV,
        pk=["k"],
        options={
            **BUCKET,
            "tag.automatic-creation": "watermark",
            "tag.creation-period": "daily",
            "tag.num-retained-max": "2",
            "tag.default-time-retained": "36500 d",
            "sink.watermark-time-zone": "UTC",
        },
    )
    for day in range(1, 6):
        automatic.write([[day, f"day {day}"], [0, f"update {day}"]], watermark=1704067200000 + day * 86400000 + 1000)
    automatic.read("watermark", {"scan.watermark": str(1704067200000 + 2 * 86400000)})

    evolved = T(
        "tags_of_old_schemas",
        "tags whose schema is no longer the newest, snapshots expired",
        [["id", "INT"], ["a", "INT"]],
    )
    evolved.write([[1, 1]]).tag("one").alter(_add("b", "INT"), _rename("a", "c")).write([[2, 2, 2]]).tag("two")
    evolved.alter(_drop("c")).write([[3, 3]]).step("expireSnapshots", retain=1)
    return [expired, live, automatic, evolved]


def _branches() -> list[TableScript]:
    several = T("branches", "from a tag and written, empty, altered, untouched", KV, pk=["k"], options=BUCKET)
    several.pile([[1, "main"], [2, "main"]]).tag("t1")
    several.branch("from_tag", "t1").branch("untouched", "t1").branch("empty").branch("altered")
    several.pile([[3, "main only"]])
    several.pile([[1, "branch"], [4, "branch"]], branch="from_tag").tag("on_branch", branch="from_tag")
    several.pile([delete(2, None)], branch="from_tag").compact(branch="from_tag")
    several.alter(_add("extra", "INT"), branch="altered").pile([[7, "altered", 70]], branch="altered")
    several.step("expireSnapshots", retain=1)

    forwarded = T("branch_fast_forwarded", "main takes over what the branch wrote", [["id", "INT"], ["s", "STRING"]])
    forwarded.write([[1, "main"]]).tag("base").branch("dev", "base").write([[2, "main, lost"]])
    forwarded.write([[3, "dev"]], branch="dev").tag("dev_tag", branch="dev").alter(_add("n", "INT"), branch="dev")
    forwarded.write([[4, "dev", 4]], branch="dev").step("fastForward", name="dev").write([[5, "after", 5]])

    by_key: dict[str, Any] = {"pk": ["k"], "options": BUCKET}
    back = [
        _taken_back(T(f"branch_fast_forwarded_back_{name}", f"main goes back to its branch, {about}", *columns, **more))
        for name, about, columns, more in (
            ("keyed", "by key", [KV], by_key),
            ("append", "without key", [KV], {}),
        )
    ]

    renamed = T("branch_renamed_deleted", "one branch renamed, one deleted", [["id", "INT"]])
    renamed.write([[1]]).tag("t").branch("old", "t").branch("gone", "t").write([[2]], branch="old").write(
        [[3]], branch="gone"
    )
    renamed.step("renameBranch", name="old", to="fresh").step("deleteBranch", name="gone").write([[4]], branch="fresh")

    fallback = T(
        "branch_fallback",
        "partitions that main lacks come from the fallback branch, a primary-key one",
        [["dt", "STRING NOT NULL"], ["k", "INT NOT NULL"], ["v", "STRING"]],
        partition=["dt"],
    )
    fallback.branch("stream").alter(_set("primary-key", "dt,k"), _set("bucket", "2"), branch="stream")
    fallback.alter(_set("scan.fallback-branch", "stream"))
    fallback.write([["0101", 1, "main"], ["0102", 2, "main"]])
    fallback.pile([["0102", 2, "stream"], ["0103", 3, "stream"], ["0103", 4, "stream"]], branch="stream")
    fallback.pile([["0103", 3, "stream updated"]], branch="stream")
    fallback.where("dt = '0103'", ["=", "dt", "0103"]).where("k = 2", ["=", "k", 2])
    return [several, forwarded, *back, renamed, fallback]


def _taken_back(script: TableScript) -> TableScript:
    """Fast-forwards to a branch that is behind main, was merged before, or is main; one of an empty branch fails."""
    script.write([[1, "a"]]).write([[2, "b"]]).tag("t2").branch("fix", "t2").branch("empty").write([[3, "c"]])
    script.step("fastForward", name="empty", mayFail=True)
    script.step("fastForward", name="fix").write([[5, "e"]]).write([[6, "f"]])
    script.step("fastForward", name="fix").write([[7, "g"]]).write([[8, "x"]], branch="fix")
    script.step("fastForward", name="fix").step("fastForward", name="fix")
    return script.write([[9, "h"]]).write([[10, "y"]], branch="fix")


def _snapshots() -> list[TableScript]:
    empty = T(
        "empty_table",
        "only created",
        [["id", "INT NOT NULL"], ["s", "VARCHAR(7)"]],
        pk=["id"],
        options={"bucket": "2", "some.unknown-option": "kept"},
        comment="nothing here",
    )

    expired = T(
        "snapshots_expired",
        "old snapshots and their files gone, manifests merged",
        [*KV, ["p", "INT NOT NULL"]],
        pk=["k", "p"],
        partition=["p"],
        options={**BUCKET, "manifest.merge-min-count": "2"},
    )
    for i in range(8):
        expired.write([[j, f"c{i}", j % 2] for j in range(i, i + 6)])
    expired.compact().step("expireSnapshots", retain=3).write([[100, "after", 0]])

    back = T("rolled_back", "rolled back to a snapshot, then to a tag, then written", KV, pk=["k"], options=BUCKET)
    back.write([[1, "a"]]).tag("one").write([[2, "b"]]).write([[3, "lost"]]).step("rollback", snapshot=2)
    back.write([[4, "lost too"]]).step("rollback", tag="one").write([[5, "kept"]])

    watermarks = T(
        "watermarks_and_statistics",
        "watermarks, table statistics, properties of commits",
        KV,
        pk=["k"],
        options=BUCKET,
    )
    watermarks.pile([[1, "a"]], watermark=1000).pile([[2, "c"]], watermark=5000).step("analyze", records=2)
    watermarks.read("watermark", {"scan.watermark": "1500"})

    deltas = T(
        "incremental_append",
        "new rows between two snapshots, a compaction in between",
        [["id", "INT"], ["s", "STRING"]],
        options={"compaction.min.file-num": "2"},
    )
    deltas.write([[1, "a"]]).tag("one").write([[2, "b"]]).compact().write([[3, "c"]]).tag("four")
    deltas.read("all", {"incremental-between": "1,4"}).read("over compaction", {"incremental-between": "2,3"})
    deltas.read("tags", {"incremental-between": "one,four"})
    return [empty, expired, back, watermarks, deltas]
