// SPDX-License-Identifier: Apache-2.0
// The kernels, each of which is defined in a file of kernels/ with TENON_TPU_KERNEL or TENON_TPU_PLAIN_KERNEL.
#include <algorithm>
#include <string_view>

#include "driver.h"
#include "kernels/kernel.h"
#include "tenon/sdk/package.h"

namespace tenon::tpu_sim {

TENON_KERNEL_PACKAGE(kKernelPackage, tenon_tpu_kernels);
TENON_LIST(tenon_tpu_planned, tenon_kernel_registration)

namespace {

const tenon_kernel_registration* Find(std::string_view op, const tenon_kernel_registration* const* begin,
                                      const tenon_kernel_registration* const* end) {
  const auto found =
      std::find_if(begin, end, [op](const tenon_kernel_registration* kernel) { return sdk::ToText(kernel->op) == op; });
  return found == end ? nullptr : *found;
}

}  // namespace

const char* OpName(std::string_view op) {
  const tenon_kernel_registration* found =
      Find(op, TENON_LIST_BEGIN(tenon_tpu_kernels), TENON_LIST_END(tenon_tpu_kernels));
  return found == nullptr ? "kernel" : found->op.data;
}

const tenon_kernel_registration* PlannedKernel(std::string_view op) {
  return Find(op, TENON_LIST_BEGIN(tenon_tpu_planned), TENON_LIST_END(tenon_tpu_planned));
}

}  // namespace tenon::tpu_sim
