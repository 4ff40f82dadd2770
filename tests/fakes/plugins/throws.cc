// SPDX-License-Identifier: Apache-2.0
// A plugin that breaks the rule that nothing is thrown across the C ABI.
#include <stdexcept>

#include "tenon/abi.h"

extern "C" TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args*);
extern "C" TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args*) {
  throw std::runtime_error("thrown");
}
