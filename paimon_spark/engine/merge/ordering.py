"""Sort rows in Java's order, by integer words that represent their columns.

The lexicographic order of the words (most significant first) is the order of Paimon's comparators: nulls first, text
and bytes by unsigned byte, decimals by value, floats as `Double.compare` (-0.0 before 0.0, NaN last). Equal words
mean equal values.

Columns of types without an order have words that are only equal where values are: two nulls are equal, and so are two
NaNs; -0.0 is not 0.0; maps are equal whatever the order of their entries.

Source: Java `codegen/GenerateUtils`, `utils/UserDefinedSeqComparator`, `data/BinaryString`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.pieces import is_text

Word: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = npt.NDArray[np.int64]
Bool: TypeAlias = npt.NDArray[np.bool_]

_MAX_TEXT_WORDS: Final = 8
_PACKED_BITS: Final = 63
_TOP_BYTES: Final = np.array([0, *(((1 << 8 * kept) - 1) << (64 - 8 * kept) for kept in range(1, 9))], np.uint64)
"""Masks that keep the first 0 to 8 bytes of a big-endian word."""


def column_words(array: pa.Array, descending: bool = False) -> list[Word]:
    """The words of a column, most significant first. Descending order keeps nulls first.

    Raises UnsupportedFeatureError: values of the type have no order.
    """
    valid = arrow_numpy.validity(array) if array.null_count else None
    words = value_words(array)
    if descending:
        words = [~w for w in words]
    if valid is None:
        return words
    words = [np.where(valid, w, w.dtype.type(0)) for w in words]
    return [valid.view(np.uint8), *words]


def value_words(array: pa.Array) -> list[Word]:
    """The words of a column whose nulls may come anywhere. Raises UnsupportedFeatureError as `column_words`."""
    t = array.type
    if pa.types.is_boolean(t):
        return [arrow_numpy.values(array).view(np.uint8)]
    if pa.types.is_floating(t):
        return [float_word(arrow_numpy.values(array))]
    if pa.types.is_decimal128(t):
        low, high = arrow_numpy.decimal_halves(array)
        return [low.view(np.int64)] if t.precision <= 18 else [high, low]
    if is_text(t):
        return _text_words(array)
    if pa.types.is_nested(t) or pa.types.is_null(t):
        raise UnsupportedFeatureError(f"rows cannot be ordered by values of type {t}", feature=str(t))
    return [arrow_numpy.values(array)]


def float_word(values: npt.NDArray[Any]) -> Word:
    """IEEE numbers as signed integers in the order of Java's `Float.compare` and `Double.compare`."""
    integer = np.dtype(f"i{values.dtype.itemsize}")
    bits = np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(integer)
    return np.where(bits < 0, bits ^ np.iinfo(integer).max, bits)


def _text_words(array: pa.Array) -> list[Word]:
    starts, raw = arrow_numpy.byte_slices(array)
    first, last = int(starts[0]), int(starts[-1])
    begins, lengths = starts[:-1] - first, np.diff(starts)
    longest = int(lengths.max(initial=0))
    if longest > 8 * _MAX_TEXT_WORDS:
        rank = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
        return [arrow_numpy.values(rank)]
    padded = np.zeros(last - first + 8, np.uint8)
    padded[: last - first] = raw[first:last]
    at_byte = np.ndarray((last - first + 1,), np.dtype(">u8"), padded, strides=(1,))
    words: list[Word] = []
    for begin in range(0, longest, 8):
        kept = np.clip(lengths - begin, 0, 8)
        word = at_byte[np.minimum(begins + begin, last - first)].astype(np.uint64)
        words.append(word if kept.min() == 8 else word & _TOP_BYTES[kept])
    return [*words, lengths]


def pack(words: Sequence[Word]) -> list[Word]:
    """Fewer words in the same order: constant ones are dropped, narrow neighbours share one."""
    if len(words) < 2 or len(words[0]) == 0:
        return list(words)
    out: list[Word] = []
    used = _PACKED_BITS + 1
    for word in words:
        low, high = int(word.min()), int(word.max())
        width = (high - low).bit_length()
        if width == 0:
            continue
        if width > _PACKED_BITS:
            out.append(word)
            used = _PACKED_BITS + 1
            continue
        offset = word.astype(np.uint64, copy=False) - np.uint64(low & 0xFFFFFFFFFFFFFFFF)
        if used + width <= _PACKED_BITS:
            out[-1] = (out[-1] << np.uint64(width)) | offset
            used += width
        else:
            out.append(offset)
            used = width
    return out


def single_word(words: Sequence[Word], count: int) -> Word:
    """One integer for each of `count` rows, in the order of their words."""
    packed = pack(words) or [np.zeros(count, np.int8)]
    if len(packed) == 1:
        return packed[0]
    order, ties = sort_rows(packed, count)
    ranks = np.empty(count, np.int64)
    ranks[order] = np.cumsum(~ties)
    return ranks


def sort_rows(words: Iterable[Word], count: int) -> tuple[Rows, Bool]:
    """A stable ascending order of `count` rows by their words, and which places tie with the place before."""
    order: Rows | None = None
    ties = np.ones(count, np.bool_)
    ties[:1] = False
    for word in words:
        order = refine(order, ties, word)
        if not ties.any():
            break
    return (np.arange(count) if order is None else order), ties


def sort_unsorted_rows(words: Sequence[Word], count: int) -> tuple[Rows, Bool]:
    """As `sort_rows`, but faster for rows in random order.

    `sort_rows` profits from runs; here a row's number is packed below its first word, or ties are put in order of
    rows afterwards, so that numpy's unstable sort of plain integers can be used.
    """
    if not words or count < 2 or bool((words[0][1:] >= words[0][:-1]).all()):
        return sort_rows(words, count)
    order, ties = _sort_packed(words[0], count)
    for word in words[1:]:
        order = refine(order, ties, word)
        if not ties.any():
            break
    return order, ties


def _sort_packed(word: Word, count: int) -> tuple[Rows, Bool]:
    """A stable order by one word, and the ties in it."""
    low = int(word.min())
    position_bits = (count - 1).bit_length()
    ties = np.zeros(count, np.bool_)
    if (int(word.max()) - low).bit_length() + position_bits > _PACKED_BITS:
        order: Rows = np.argsort(word)
        ordered = word[order]
        ties[1:] = ordered[1:] == ordered[:-1]
        wrong = ties[1:] & (order[1:] < order[:-1])
        return (_sort_within_ties(order, ties, order, wrong) if wrong.any() else order), ties
    packed = word.astype(np.int64) if word.dtype.kind == "i" else word.astype(np.uint64)
    packed = packed.view(np.uint64) - np.uint64(low & 0xFFFFFFFFFFFFFFFF)
    packed = (packed << np.uint64(position_bits)) | np.arange(count, dtype=np.uint64)
    packed.sort()
    keys = packed >> np.uint64(position_bits)
    ties[1:] = keys[1:] == keys[:-1]
    return (packed & np.uint64((1 << position_bits) - 1)).view(np.int64), ties


def refine(order: Rows | None, ties: Bool, word: Word) -> Rows:
    """Order tied rows by one more word, stably; `ties` is narrowed in place. `order` None is row order."""
    if order is None:
        if len(word) == 0:
            return np.empty(0, np.int64)
        order = np.argsort(word, kind="stable")
        ordered = word[order]
    elif not ties.any():
        return order
    else:
        ordered = word[order]
        wrong = ties[1:] & (ordered[1:] < ordered[:-1])
        if wrong.any():
            order = _sort_within_ties(order, ties, ordered, wrong)
            ordered = word[order]
    ties[1:] &= ordered[1:] == ordered[:-1]
    return order


def _sort_within_ties(order: Rows, ties: Bool, ordered: Word, wrong: Bool) -> Rows:
    """Sort by `ordered` inside those runs of ties where something is out of order."""
    block = np.cumsum(~ties)
    touched = np.zeros(int(block[-1]) + 1, np.bool_)
    touched[block[1:][wrong]] = True
    places = np.flatnonzero(touched[block])
    permuted = np.lexsort((ordered[places], block[places]))
    out = order.copy()
    out[places] = order[places[permuted]]
    return out


def group_starts(ties: Bool) -> Rows:
    """Places where a group of equal rows begins."""
    return np.flatnonzero(~ties)


def identity_words(array: pa.Array) -> list[Word]:
    """The words of a column: two rows of it hold equal values when all their words are equal."""
    t = array.type
    if pa.types.is_null(t):
        return []
    if not pa.types.is_nested(t):
        return column_words(array)
    if not len(array):
        return [np.zeros(0, np.uint8)]
    valid = arrow_numpy.validity(array)
    if pa.types.is_struct(t):
        words = [word for i in range(t.num_fields) for word in identity_words(array.field(i))]
    else:
        words = _list_words(array, valid)
    return [valid.view(np.uint8), *(np.where(valid, word, word.dtype.type(0)) for word in words)]


def identity_codes(array: pa.Array) -> Word:
    """One number for each value of a column, equal for equal values."""
    return single_word(identity_words(array), len(array))


def _list_words(array: pa.Array, valid: Bool) -> list[Word]:
    """The words of lists and maps: one number for each different sequence of elements."""
    offsets = arrow_numpy.values(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    is_map = pa.types.is_map(array.type)
    children = [array.keys, array.items] if is_map else [array.values]
    codes = [identity_codes(child.slice(first, last - first)) for child in children]
    lengths = np.where(valid, np.diff(offsets), 0)
    elements = arrow_numpy.ranges(offsets[:-1] - first, lengths)
    if is_map:
        elements = elements[np.lexsort((codes[0][elements], np.repeat(np.arange(len(lengths)), lengths)))]
    wide = np.stack([code[elements].astype(np.uint64) for code in codes], axis=-1)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64) * wide.shape[-1] * wide.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(wide))]
    texts = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), buffers)
    return [arrow_numpy.values(texts.dictionary_encode().indices)]
