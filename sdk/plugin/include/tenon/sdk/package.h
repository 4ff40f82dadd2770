// SPDX-License-Identifier: Apache-2.0
// A package's one file package.cc: the list of its ops, one line each, and the plugin's entry point.
//
//   #include "tenon/sdk/package.h"
//   TENON_OPS(
//       kSquare,
//       kCube)
//   TENON_OP_PLUGIN("example.powers", "1.0.0", "Squares and cubes.")
//
// The constants are declared here and defined in the ops' files, in namespace tenon::ops. With
// TENON_KERNELS(kSquareHost, ...) besides, and TENON_OP_AND_KERNEL_PLUGIN, a package brings kernels.
#ifndef TENON_SDK_PACKAGE_H_
#define TENON_SDK_PACKAGE_H_

#include <array>

#include "tenon/sdk/span.h"

namespace tenon::sdk {

template <class First, class... Rest>
constexpr std::array<const First*, 1 + sizeof...(Rest)> PointersTo(const First& first, const Rest&... rest) {
  return {&first, &rest...};
}

}  // namespace tenon::sdk

#define TENON_OPS(...)                                                                              \
  namespace tenon::ops {                                                                            \
  extern const tenon_op_definition __VA_ARGS__;                                                     \
  static constexpr auto kPackageOps = ::tenon::sdk::PointersTo(__VA_ARGS__);                        \
  static constexpr tenon_op_package kOpPackage = {TENON_HEAD(tenon_op_package), kPackageOps.data(), \
                                                  kPackageOps.size()};                              \
  }

#define TENON_KERNELS(...)                                                                                          \
  namespace tenon::ops {                                                                                            \
  extern const tenon_kernel_registration __VA_ARGS__;                                                               \
  static constexpr auto kPackageKernels = ::tenon::sdk::PointersTo(__VA_ARGS__);                                    \
  static constexpr tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kPackageKernels.data(), \
                                                          kPackageKernels.size()};                                  \
  }

#define TENON_OP_PLUGIN(id, version, doc)                             \
  static const tenon_capability tenon_capabilities_[] = {             \
      {TENON_SPAN(TENON_CAPABILITY_OPS), &::tenon::ops::kOpPackage}}; \
  TENON_PLUGIN(id, version, doc, tenon_capabilities_)

#define TENON_OP_AND_KERNEL_PLUGIN(id, version, doc)                          \
  static const tenon_capability tenon_capabilities_[] = {                     \
      {TENON_SPAN(TENON_CAPABILITY_OPS), &::tenon::ops::kOpPackage},          \
      {TENON_SPAN(TENON_CAPABILITY_KERNELS), &::tenon::ops::kKernelPackage}}; \
  TENON_PLUGIN(id, version, doc, tenon_capabilities_)

#endif  // TENON_SDK_PACKAGE_H_
