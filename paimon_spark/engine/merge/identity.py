"""Integer words that are equal where values are equal, for columns of any type.

Two nulls are equal, and so are two NaNs; -0.0 is not 0.0; maps are equal whatever the order of their entries.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.ordering import Word, column_words, single_word
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool


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
