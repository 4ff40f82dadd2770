// SPDX-License-Identifier: Apache-2.0
// Whether what communicators.h declares of NCCL's C ABI is what a vendor's header has. Included behind that header
// (nccl.h, rccl.h).
#ifndef TENON_DEVICES_GPU_COLLECTIVE_COMMUNICATORS_CHECK_H_
#define TENON_DEVICES_GPU_COLLECTIVE_COMMUNICATORS_CHECK_H_

#include <type_traits>

#include "collective/communicators.h"

namespace tenon::gpu {

static_assert(NCCL_MAJOR == 2 && sizeof(ncclUniqueId) == sizeof(nccl::UniqueId));
static_assert(ncclSuccess == nccl::kSuccess);
static_assert(int{ncclUint8} == nccl::kUint8 && int{ncclInt32} == nccl::kInt32 && int{ncclInt64} == nccl::kInt64);
static_assert(int{ncclFloat16} == nccl::kFloat16 && int{ncclFloat32} == nccl::kFloat32 &&
              int{ncclFloat64} == nccl::kFloat64);
static_assert(int{ncclBfloat16} == nccl::kBfloat16);
static_assert(int{ncclSum} == nccl::kSum && int{ncclProd} == nccl::kProduct && int{ncclMax} == nccl::kMaximum &&
              int{ncclMin} == nccl::kMinimum);
// Enumerations are passed as int, handles as pointers.
static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int) &&
              sizeof(ncclResult_t) == sizeof(int));
template <class Declared, class Called>
struct SameParameters {
  static constexpr bool value = false;
};
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct SameParameters<R (*)(A...), S (*)(B...)> {
    static constexpr bool value =
        sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
};
#define TENON_NCCL_COMPARE(name, type) \
  static_assert(SameParameters<decltype(&::name), As<type>>::value, #name " has other parameters");
template <class T>
using As = T;
TENON_NCCL_FUNCTIONS(TENON_NCCL_COMPARE)
#undef TENON_NCCL_COMPARE

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_COLLECTIVE_COMMUNICATORS_CHECK_H_
