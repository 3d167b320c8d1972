"""Z-order and Hilbert curves: positions of points whose coordinates are whole numbers.

Source: J. Skilling, "Programming the Hilbert curve", 2004.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.uint64]


def z_order(coordinates: Sequence[Integers], bits: int) -> Integers:
    """The positions on the Z-order curve: the bits of the coordinates interleaved, highest first.

    Args:
        coordinates: an array for each dimension, all of one length; at least one.
        bits: of each coordinate; times the dimensions at most 64.
    """
    position = np.zeros(len(coordinates[0]), np.uint64)
    one = np.uint64(1)
    for bit in range(bits - 1, -1, -1):
        for values in coordinates:
            position = (position << one) | ((values >> np.uint64(bit)) & one)
    return position


def hilbert(coordinates: Sequence[Integers], bits: int) -> Integers:
    """The positions on the Hilbert curve, on which neighbours differ by one in one coordinate. As `z_order`."""
    axes = [values.astype(np.uint64) for values in coordinates]
    nothing = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for n in range(len(axes)):
            is_high = (axes[n] & high) != 0
            swapped = np.where(is_high, nothing, (axes[0] ^ axes[n]) & low)
            axes[0] = np.where(is_high, axes[0] ^ low, axes[0] ^ swapped)
            if n:
                axes[n] = axes[n] ^ swapped
    for n in range(1, len(axes)):
        axes[n] = axes[n] ^ axes[n - 1]
    turned = nothing
    for bit in range(bits - 1, 0, -1):
        turned = np.where((axes[-1] & np.uint64(1 << bit)) != 0, turned ^ np.uint64((1 << bit) - 1), turned)
    return z_order([values ^ turned for values in axes], bits)
