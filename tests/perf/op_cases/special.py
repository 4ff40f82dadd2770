# SPDX-License-Identifier: Apache-2.0
"""Functions that take many steps for each number."""
import numpy as np

from .inputs import case, cases

cases("Lgamma Digamma", lambda i: [i.slow(0.1, 9)])
cases("BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 Dawsn FresnelCos FresnelSin", lambda i: [i.slow(-9, 9)])
cases("BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Expint Spence", lambda i: [i.slow(0.1, 9)])
cases("Igamma Igammac IgammaGradA RandomGammaGrad", lambda i: [i.slow(0.5, 9), i.slow(0.5, 9)])
cases("Betainc", lambda i: [i.slow(0.5, 9), i.slow(0.5, 9), i.slow(0.05, 0.95)])
cases("Zeta", lambda i: [i.slow(1.5, 9), i.slow(0.5, 9)])
cases("Polygamma", lambda i: [i.read(i.random.integers(1, 5, i.shape("slow")).astype(np.float32)), i.slow(0.5, 9)])
case("Lgamma, double; Digamma, double; BesselJ0, double; BesselI0e, double", lambda i: [i.slow(0.1, 9, np.float64)])
case("Igamma, double; Zeta, double", lambda i: [i.slow(1.5, 9, np.float64), i.slow(0.5, 9, np.float64)])
