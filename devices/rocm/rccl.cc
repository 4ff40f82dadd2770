// SPDX-License-Identifier: Apache-2.0
// RCCL's name, and a look at its header where there is one: what communicators.h declares of the C ABI is what RCCL has.
#include "communicators.h"

#include <type_traits>

#if __has_include(<rccl/rccl.h>)
#include <rccl/rccl.h>
#define TENON_HAS_RCCL_HEADER
#endif

namespace tenon::gpu {

const CommunicatorNames kCommunicatorNames = {"librccl.so.1", "install RCCL of ROCm and name its folder in LD_LIBRARY_PATH"};

#ifdef TENON_HAS_RCCL_HEADER
static_assert(NCCL_MAJOR == 2 && sizeof(ncclUniqueId) == sizeof(nccl::UniqueId));
static_assert(ncclSuccess == nccl::kSuccess);
static_assert(int{ncclUint8} == nccl::kUint8 && int{ncclInt32} == nccl::kInt32 && int{ncclInt64} == nccl::kInt64);
static_assert(int{ncclFloat16} == nccl::kFloat16 && int{ncclFloat32} == nccl::kFloat32 && int{ncclFloat64} == nccl::kFloat64);
static_assert(int{ncclBfloat16} == nccl::kBfloat16);
static_assert(int{ncclSum} == nccl::kSum && int{ncclProd} == nccl::kProduct && int{ncclMax} == nccl::kMaximum && int{ncclMin} == nccl::kMinimum);
// Enumerations are passed as int, handles as pointers.
static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int) && sizeof(ncclResult_t) == sizeof(int));
template <class Declared, class Called>
struct SameParameters {
  static constexpr bool value = false;
};
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct SameParameters<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>) && ...);
};
#define TENON_NCCL_COMPARE(name, type) static_assert(SameParameters<decltype(&::name), As<type>>::value, #name " has other parameters");
template <class T>
using As = T;
TENON_NCCL_FUNCTIONS(TENON_NCCL_COMPARE)
#undef TENON_NCCL_COMPARE
#endif

}  // namespace tenon::gpu
