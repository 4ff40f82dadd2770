// SPDX-License-Identifier: Apache-2.0
#include "emulation/observer.h"

#include <atomic>

namespace tenon::gpu {
namespace {

std::atomic<EmulatedObserver*> observer{nullptr};

}  // namespace

EmulatedObserver* Observer() { return observer.load(); }
void SetObserver(EmulatedObserver* next) { observer.store(next); }

}  // namespace tenon::gpu
