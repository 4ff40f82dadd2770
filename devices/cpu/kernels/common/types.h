// SPDX-License-Identifier: Apache-2.0
// What every CPU kernel begins with: the element types (tenon/sdk/kernel/element.h), and its registration.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_TYPES_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "tenon/sdk/kernel/element.h"

namespace tenon::cpu {

using sdk::Bfloat16;
using sdk::Bytes16;
using sdk::Convert;
using sdk::DispatchSize;
using sdk::DtypeOf;
using sdk::Half;
using sdk::IndexAt;
using sdk::Indices;
using sdk::kInPlaceEither;
using sdk::kInPlaceFirst;
using sdk::kIsComplex;
using sdk::kIsHalf;
using sdk::kIsReal;
using sdk::Numbers;
using sdk::PlainConstraint;
using sdk::Reals;
using sdk::Tag;
using sdk::Types;
using sdk::Wide;

using View = tenon_tensor_view;
using AnyNumbers = Numbers::AndComplex;
using RealsAndComplex = Reals::AndComplex;
// What resizing, cropping and moving of images take.
using Pictures = Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t>;

// Of kernels that move elements of any type.
inline constexpr sdk::Traits kPlain = {.constraints = sdk::Constraints<PlainConstraint<"T">>::list};

// The registration of Kernel for `op` on this device.
template <class Kernel>
constexpr tenon_kernel_registration CpuKernel(std::string_view op, sdk::Traits traits) {
  traits.device_type = "CPU";
  return sdk::Registration<Kernel>(op, traits);
}

// Defines a kernel of this package. A name is not twice in the package; several kernels of an op have several.
#define TENON_CPU_KERNEL(name) TENON_KERNEL_OF(tenon_cpu_kernels, k##name##Kernel)

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_TYPES_H_
