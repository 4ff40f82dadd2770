// SPDX-License-Identifier: Apache-2.0
// Guarded: what is called from a transport's or the engine's threads must not throw; what it throws becomes a status here.
#ifndef TENON_NET_CLUSTER_GUARDED_H_
#define TENON_NET_CLUSTER_GUARDED_H_

#include <exception>
#include <new>

#include "core/base/status.h"

namespace tenon::cluster {

// function() gives a Status.
template <typename Function>
Status Guarded(Function&& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted, "there is no memory for what was asked");
  } catch (const std::exception& error) {
    return Status(Code::kInternal, error.what());
  } catch (...) {
    return Status(Code::kInternal, "something was thrown that is no std::exception");
  }
}

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_GUARDED_H_
