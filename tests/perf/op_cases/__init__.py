# SPDX-License-Identifier: Apache-2.0
"""Cases of ops, a file for each family."""
from . import (
    arithmetic,
    arrays,
    images,
    layers,
    linear,
    optimizers,
    parsing,
    quantized,
    reductions,
    samples,
    segments,
    sequences,
    sparse,
    special,
    state,
    texts,
    volumes,
)
from .inputs import CASES, COPIES, SIZES, Inputs
from .untimed import UNTIMED
