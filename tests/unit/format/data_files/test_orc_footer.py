"""How long the texts of dictionaries in ORC files are is known before they are decoded."""

from __future__ import annotations

import io
from random import Random

import pyarrow as pa
import pytest
from pyarrow import orc

from paimon_spark.errors import FormatError
from paimon_spark.format.data_files.orc_footer import _most_v1, _most_v2, longest_texts, read_footer


def orc_file(table: pa.Table, compression: str = "zstd", **options: float) -> pa.BufferReader:
    out = io.BytesIO()
    orc.write_table(table, out, compression=compression, dictionary_key_size_threshold=1.0, **options)
    return pa.BufferReader(out.getvalue())


def longest(source: pa.BufferReader, *columns: int) -> int:
    footer = read_footer(source)
    assert footer is not None
    return max(longest_texts(source, footer, s, columns) for s in footer.stripes)


@pytest.mark.parametrize(
    ("data", "most"),
    [
        ("0a 27 10", 10_000),  # five times the same
        ("5e 03 5c a1 ab 1e de ad be ef", 57_005),
        (
            "8e 13 2b 21 07 d0 1e 00 14 70 28 32 3c 46 50 5a 64 6e 78 82 8c 96 a0 aa b4 be fc e8",
            1_000_000,
        ),
        ("c6 09 02 02 22 42 42 46", 29),
        ("c0 63 05 02", 5 + 99),  # 5, 6, 7, …
        ("c0 63 64 01", 100),  # 100, 99, 98, …
    ],
)
def test_examples_of_the_specification_in_version_2(data: str, most: int) -> None:
    found = _most_v2(bytes.fromhex(data))
    assert most <= found <= 5 * most


@pytest.mark.parametrize(
    ("data", "most"), [("61 00 07", 7), ("61 ff 64", 100), ("fb 02 03 06 07 0b", 11), ("61 01 01", 100)]
)
def test_examples_of_the_specification_in_version_1(data: str, most: int) -> None:
    assert most <= _most_v1(bytes.fromhex(data)) <= most + 3


@pytest.mark.parametrize("data", ["5e 03 5c", "8e 13", "8e 13 2b 21 07 d0 1e", "c6 09", "c0 63 ff ff"])
def test_cut_streams_are_refused(data: str) -> None:
    with pytest.raises(FormatError, match="cut short"):
        _most_v2(bytes.fromhex(data))


@pytest.mark.parametrize("compression", ["zstd", "zlib", "uncompressed"])
@pytest.mark.parametrize("seed", range(10))
def test_the_longest_text_of_a_dictionary_is_found(seed: int, compression: str) -> None:
    random = Random(seed)
    count = random.choice([1, 2, 5, 300, 3000])
    lengths = random.choice([[7] * count, [*range(count)], [random.randrange(3000) for _ in range(count)]])
    lengths[count // 2] = random.choice([lengths[0], 5000])
    texts = [f"{i:06}" + "x" * length for i, length in enumerate(lengths)]
    rows = [*texts, *(random.choice(texts) for _ in range(3 * count)), None]
    table = pa.table({"number": range(len(rows)), "text": rows, "struct": [{"text": "abc"}] * len(rows)})
    most = max(map(len, texts))
    source = orc_file(table, compression)
    assert most <= longest(source, 2) <= 2 * most
    assert most + 3 <= longest(source, 2, 4) <= 2 * most + 3
    assert longest(source) == 0


def test_texts_without_a_dictionary_have_no_bound() -> None:
    out = io.BytesIO()
    orc.write_table(pa.table({"a": ["x" * 100, "y"]}), out, dictionary_key_size_threshold=0.0)
    assert longest(pa.BufferReader(out.getvalue()), 1) == 0


def test_a_stripe_that_ends_outside_of_the_file_is_refused() -> None:
    source = orc_file(pa.table({"a": ["x"]}))
    footer = read_footer(source)
    assert footer is not None
    (stripe,) = footer.stripes
    for wrong in (stripe._replace(end=1 << 40), stripe._replace(start=stripe.footer_start)):
        with pytest.raises(FormatError, match=r"cut short|longer than itself"):
            longest_texts(source, footer, wrong, [1])
