"""Tables of the merge engines that combine rows, for Java to write: partial-update, aggregation, first-row."""

from __future__ import annotations

from tests.interop.table_script import TableScript, array, delete, map_of, row, update_after, update_before

T = TableScript
KV = [["k", "INT NOT NULL"], ["v", "STRING"]]


def scripts() -> list[TableScript]:
    """Every table of partial-update, aggregation and first-row."""
    return [*_partial_update(), *_aggregation(), *_first_row()]


def _partial_update() -> list[TableScript]:
    plain = T(
        "pk_partial_update",
        "nulls leave the old value; deletes remove the row",
        [["k", "INT NOT NULL"], ["a", "INT"], ["b", "STRING"], ["c", "DOUBLE"]],
        pk=["k"],
        options={
            "bucket": "2",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        },
    )
    plain.pile([[1, 1, None, None], [2, None, "b2", None], [3, None, None, None], [6, 6, "six", 6.0]])
    plain.pile([[1, None, "b1", None], [2, 2, None, 2.5], [4, 4, "b4", 4.5], delete(6, None, None, None)])
    plain.pile([[1, 10, None, 1.5], [3, None, "b3", None], [4, None, None, None], [6, None, "reborn", None]])
    plain.compact().pile([[4, 44, None, None], [5, None, None, 5.5], delete(2, None, None, None)])
    plain.read("one column", columns=["c"]).where("b = 'b1'", ["=", "b", "b1"])

    groups = T(
        "pk_partial_update_groups",
        "sequence groups of one and two fields, an aggregated field inside a group, deletes inside a group",
        [
            ["k", "INT NOT NULL"],
            ["a", "INT"],
            ["g1", "INT"],
            ["b", "STRING"],
            ["s", "INT"],
            ["g2", "INT"],
            ["g3", "INT"],
            ["free", "STRING"],
        ],
        pk=["k"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "fields.g1.sequence-group": "a",
            "fields.g2,g3.sequence-group": "b,s",
            "fields.s.aggregate-function": "sum",
        },
    )
    groups.pile(
        [
            [1, 1, 5, "x", 10, 1, 1, "f"],
            [2, 2, 1, "y", 20, 1, 0, None],
            [3, 3, None, "z", 1, None, None, "f3"],
        ]
    )
    groups.pile([[1, 99, 4, "x2", 5, 1, 2, None], [2, 3, 2, "old", 7, 0, 9, "g"], [3, 4, 1, None, 2, 1, None, None]])
    groups.pile(
        [
            [1, 7, 6, None, 1, None, None, "h"],
            [2, None, 3, "zz", None, 3, 3, None],
            [3, 5, 0, "w", 4, 1, 1, None],
        ]
    )
    groups.pile([delete(2, None, 9, None, None, None, None, None)])
    groups.compact().pile([[1, None, 7, "last", 100, 5, 5, None]])
    groups.read("columns of one group", columns=["a", "k"]).read("no sequence column", columns=["s", "b"])

    removed = T(
        "pk_partial_update_remove_group",
        "a delete through a sequence group removes the whole row",
        [["k", "INT NOT NULL"], ["a", "INT"], ["g1", "INT"], ["b", "STRING"], ["g2", "INT"]],
        pk=["k"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "fields.g1.sequence-group": "a",
            "fields.g2.sequence-group": "b",
            "partial-update.remove-record-on-sequence-group": "g1",
        },
    )
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
    ]
    options = {"bucket": "2", "merge-engine": "aggregation"}
    for name, _, settings in functions:
        options.update({f"fields.{name}.{key}": value for key, value in settings.items()})
    fields = [["k", "STRING NOT NULL"], *[[name, type_] for name, type_, _ in functions]]
    script = T(
        "pk_aggregation",
        "every simple aggregate function, with retracts",
        fields,
        pk=["k"],
        options=options,
        unordered=["set"],
    )
    one: list[object] = [
        1,
        2**40,
        "1.10",
        0.5,
        2,
        "1.50",
        "m",
        "2024-01-05",
        1.5,
        "01",
        "x",
        "x",
        "x",
        "x",
        "p",
        "p",
        True,
        False,
        ["p"],
        ["p"],
        [["a", 1]],
        1,
    ]
    two: list[object] = [
        2,
        -1,
        "2.20",
        0.25,
        3,
        "2.00",
        "z",
        "2024-01-01",
        0.5,
        "0101",
        None,
        None,
        None,
        "y",
        "q",
        "p",
        False,
        True,
        ["q", "p"],
        ["q", "p"],
        [["a", 2], ["b", None]],
        None,
    ]
    three: list[object] = [
        None,
        5,
        None,
        8.0,
        None,
        None,
        "",
        None,
        "NaN",
        None,
        "w",
        "w",
        None,
        None,
        "",
        "r",
        None,
        None,
        None,
        [],
        None,
        3,
    ]
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
            "bucket": "1",
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.default-aggregate-function": "sum",
            "fields.m.aggregate-function": "max",
        },
    )
    removing.pile([[1, 1, 1], [2, 2, 2], [3, 3, 3]]).pile([delete(1, 9, 9), [2, 5, 1], delete(3, 0, 0)])
    removing.pile([[3, 1, 1]]).compact().pile([[1, 7, 7]])

    sequenced = T(
        "pk_aggregation_sequence",
        "aggregation in the order of a sequence field",
        [["k", "INT NOT NULL"], ["ts", "BIGINT"], ["last", "STRING"], ["first", "STRING"], ["list", "STRING"]],
        pk=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "sequence.field": "ts",
            "fields.last.aggregate-function": "last_value",
            "fields.first.aggregate-function": "first_value",
            "fields.list.aggregate-function": "listagg",
        },
    )
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
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.orders.aggregate-function": "nested_update",
            "fields.orders.nested-key": "id",
            "fields.log.aggregate-function": "nested_update",
            "fields.parts.aggregate-function": "nested_partial_update",
            "fields.parts.nested-key": "id",
        },
        unordered=["orders", "log", "parts"],
        may_refuse="nested",
    )
    nested.pile([[1, [[1, 1, "a"], [2, 2, "b"]], [[1, "x"]], [[1, 1, None]]], [2, None, None, None]])
    nested.pile(
        [
            [1, [[2, 22, None]], [[1, "x"], [2, "y"]], [[1, None, "s"], [2, 2, None]]],
            [2, [[9, 9, "z"]], None, [[9, None, None]]],
        ]
    )
    nested.pile([[1, [[3, 3, "c"]], None, [[2, None, "t"]]]])
    return [script, removing, sequenced, nested]


def _first_row() -> list[TableScript]:
    looked_up = T(
        "pk_first_row",
        "first-row with the lookup changelog",
        KV,
        pk=["k"],
        options={"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"},
    )
    looked_up.write([[1, "first"], [2, "first"]]).write([[1, "second"], [3, "first"]]).write(
        [[3, "second"], [2, "third"]]
    )
    piled = T(
        "pk_first_row_level_0",
        "rows of level 0 are invisible until compaction",
        KV,
        pk=["k"],
        options={"bucket": "1", "merge-engine": "first-row", "ignore-delete": "true"},
    )
    piled.write([[1, "first"], [2, "first"]]).pile([[1, "second"], [3, "unseen"], delete(2, None)]).compact().pile(
        [[4, "unseen"]]
    )
    return [looked_up, piled]
