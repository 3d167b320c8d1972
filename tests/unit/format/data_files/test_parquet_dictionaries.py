"""Which columns of Parquet files get a dictionary."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.format.data_files.parquet import repeating


def test_columns_whose_values_repeat_get_a_dictionary_whatever_their_type() -> None:
    few, many = [1, 2, None, 1] * 25, [*range(99), None]
    table = pa.table(
        {
            "few_longs": pa.array(few, pa.int64()),
            "many_longs": pa.array(many, pa.int64()),
            "few_doubles": pa.array([None if n is None else n / 2 for n in few], pa.float64()),
            "many_doubles": pa.array([None if n is None else n / 2 for n in many], pa.float64()),
            "few_moments": pa.array(few, pa.timestamp("us")),
            "few_words": pa.array([None if n is None else f"w{n}" for n in few]),
            "many_words": pa.array([None if n is None else f"w{n}" for n in many]),
            "flags": pa.array([True, False] * 50),
            "nothing": pa.nulls(100, pa.int32()),
            "rows": pa.array([{"few": 1, "many": n} for n in many]),
        }
    )
    assert repeating(table) == ["few_longs", "few_doubles", "few_moments", "few_words", "rows.few"]
