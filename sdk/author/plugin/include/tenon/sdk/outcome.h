// SPDX-License-Identifier: Apache-2.0
// Outcome: how something ended, as a value that may be kept and copied. A tenon_status belongs to one caller; a failed
// timeline has to give the same status to many.
#ifndef TENON_SDK_OUTCOME_H_
#define TENON_SDK_OUTCOME_H_

#include <cstdint>
#include <string>

#include "tenon/sdk/span.h"

namespace tenon::sdk {

struct [[nodiscard]] Outcome {
  uint32_t code = TENON_OK;
  std::string message;
  bool ok() const { return code == TENON_OK; }
};

template <class... Parts>
Outcome Fault(uint32_t code, const Parts&... parts) {
  return {code, Concat(parts...)};
}

// The status for a caller; NULL for success.
inline tenon_status* ToStatus(const Outcome& outcome) {
  return outcome.ok() ? nullptr : tenon_plugin_host->status_new(outcome.code, ToSpan(outcome.message));
}

// Takes the status over.
inline Outcome TakeStatus(tenon_status* status) {
  if (status == nullptr) return {};
  Outcome outcome{tenon_plugin_host->status_code(status),
                  std::string(ToText(tenon_plugin_host->status_message(status)))};
  tenon_plugin_host->status_release(status);
  return outcome;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_OUTCOME_H_
