# SPDX-License-Identifier: Apache-2.0
"""The networks, each by its name in NETWORKS; needs TensorFlow."""
from . import attention, dense, images, inception, pictures, recurrent, sparse  # noqa: F401: they register themselves
from .network import NETWORKS, build  # noqa: F401
