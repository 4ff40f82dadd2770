// SPDX-License-Identifier: Apache-2.0
// LateUpdates: updates of variables that kernels have begun and whose work is launched later. They stay open until
// then.
#ifndef TENON_CORE_EXEC_DEVICE_LATE_UPDATES_H_
#define TENON_CORE_EXEC_DEVICE_LATE_UPDATES_H_

#include <algorithm>
#include <vector>

#include "core/exec/device/resources.h"

namespace tenon::exec {

struct LateUpdates {
  struct Update {
    tenon_resource* resource;
    const void* frame;
    uint32_t outcome;  // as the kernel said
  };
  bool Has(const tenon_resource* resource) const {
    return std::any_of(updates.begin(), updates.end(), [&](const Update& each) { return each.resource == resource; });
  }
  std::vector<Update> updates;
  std::vector<tenon_resource*> written;       // as they end
  std::vector<const void*> addresses;         // old and new memory of each
  std::vector<const tenon_buffer*>
      dropped;  // held by the step, which has no more use for them before the update's work
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_LATE_UPDATES_H_
