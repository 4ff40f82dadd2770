// SPDX-License-Identifier: Apache-2.0
// This package's kernels, linked into a test: Kernel("AddV2").Run({...}, {...}) as tenon/testing/kernel_case.h says.
#ifndef TENON_DEVICES_CPU_TESTING_KERNEL_H_
#define TENON_DEVICES_CPU_TESTING_KERNEL_H_

#include "device.h"
#include "kernels/common/types.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::cpu {

using testing::Handle;
using testing::Make;
using testing::Out;
using testing::Reference;
using testing::Result;
using testing::Scalar;
using testing::Strings;
using testing::Tensor;
using testing::Texts;
using testing::Type;
using testing::Values;
using testing::Variable;
using testing::Vector;

struct Kernel : testing::KernelCase {
  explicit Kernel(std::string op, uint32_t dtype = TENON_DT_INVALID)
      : KernelCase(kKernelPackage, std::move(op), dtype) {}
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_TESTING_KERNEL_H_
