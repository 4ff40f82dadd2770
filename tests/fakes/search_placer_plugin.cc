// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.test.search_placer: places by blind search.
#include "tenon/plugin.h"
#include "tests/fakes/search_placer.h"

namespace {

const tenon_placer kPlacer = {TENON_HEAD(tenon_placer), &tenon::fakes::SearchPlace};
const tenon_capability kCapabilities[] = {TENON_PROVIDES(PLACER, &kPlacer)};

}  // namespace

TENON_PLUGIN("tenon.test.search_placer", "0.1.0", "Places nodes by simulated annealing.", kCapabilities)
