// SPDX-License-Identifier: Apache-2.0
// Memory in large pages for what is made once and read in each step. Looking up the small pages of a network's packed
// filters (100 MB) took some 3 % of ResNet-50's step.
#ifndef TENON_DEVICES_CPU_ONEDNN_LARGE_PAGES_H_
#define TENON_DEVICES_CPU_ONEDNN_LARGE_PAGES_H_

#include <cstddef>
#include <memory>

namespace tenon::cpu_onednn {

// A part of a block of 16 MiB, or a block of its own where that is more than half of one; at a multiple of 64 bytes,
// with anything in it. The block goes when nothing of it is held: what lives long should not be beside what does not.
// Pages are as large as the system gives (transparent huge pages). Any thread; throws std::bad_alloc.
std::shared_ptr<void> InLargePages(size_t bytes);

}  // namespace tenon::cpu_onednn

#endif  // TENON_DEVICES_CPU_ONEDNN_LARGE_PAGES_H_
