// SPDX-License-Identifier: Apache-2.0
// Constraints: where each node may go by itself, before nodes that stay together are joined.
#ifndef TENON_CORE_PLACE_CONSTRAINTS_H_
#define TENON_CORE_PLACE_CONSTRAINTS_H_

#include <string>
#include <vector>

#include "core/place/device_name.h"
#include "core/place/device_set.h"
#include "core/place/request.h"

namespace tenon::place {

struct Constraints {
  IdVector<Position, SetId> kernels;  // the devices that have a kernel, and where its state may be
  IdVector<Position, SetId> wishes;   // the devices that its device name means; kAll when it has none
  IdVector<Position, SetId>
      tasks;  // all devices of the tasks that its device name means: what soft placement keeps of it
  std::vector<std::string> notes;
};

// A name that means no device is an error, or with soft placement a note; of a cluster, one that means no task is an
// error either way.
Result<Constraints> FindConstraints(const Request& request, DeviceSets* sets);

// The device name that holds for a node: the placement file's, its own, or the default.
const std::string& WishOf(const Request& request, const graph::Node& node);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_CONSTRAINTS_H_
