# SPDX-License-Identifier: Apache-2.0
"""Cases of the collective package that need no group to meet."""
import numpy as np

from .draw import Case, op


@op("CollectiveAssignGroupV2", count=30)
def assign(d):
    groups, size = d.int(1, 4), d.int(1, 4)
    devices = d.random.permutation(groups * size).astype(np.int32).reshape(groups, size)
    device = d.int(0, groups * size - 1) if d.chance(0.93) else groups * size
    return Case([d.given(devices), d.given(np.int32(device)), d.given(np.int32(d.int(0, 99)))], disturb=False)
