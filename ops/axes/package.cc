// SPDX-License-Identifier: Apache-2.0
// Package axes: no op, a pass. Passes run in the order of their packages' ids: what devices look for in gradients they
// find after this one.
#include "tenon/sdk/package.h"

#include "pass.h"

static const tenon_capability kCapabilities[] = {TENON_PROVIDES(GRAPH_PASS, &tenon::ops::kAxesPass)};
TENON_PLUGIN("tenon.axes", "0.1.0",
             "Sums of gradients along axes that are known, whatever sizes a step is fed; products of the steps of a "
             "sequence as one.",
             kCapabilities)
