// SPDX-License-Identifier: Apache-2.0
// A package's one file package.cc: the plugin's entry point, over the ops and kernels that stand in its other files.
//
//   #include "tenon/sdk/package.h"
//   TENON_OP_PLUGIN("example.powers", "1.0.0", "Squares and cubes.")
//
// Whatever the library's files define with TENON_OP (op.h) is the package's. TENON_OP_AND_KERNEL_PLUGIN: and what they
// define with TENON_KERNEL (kernel.h). A fourth argument says what the ops know: TENON_OPS_NAMED_DIMS (tenon/op.h),
// where all shape functions take any negative dim for an unknown one (shape_function.h). A device package, which has a
// list of kernels by a name of its own, asks for its table alone:
//
//   TENON_KERNEL_PACKAGE(kKernelPackage, example_kernels);  // after extern const tenon_kernel_package kKernelPackage;
//
// The tables are made when the library is opened, in the order of the ops' names.
#ifndef TENON_SDK_PACKAGE_H_
#define TENON_SDK_PACKAGE_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/sdk/list.h"
#include "tenon/sdk/span.h"

namespace tenon::sdk {

// Entries of a list in the order of their names; equal names in the order of the list. Never freed: the host keeps what
// it was given.
template <class T, class Name>
std::span<const T* const> SortedList(const T* const* begin, const T* const* end, Name&& name) {
  const std::span<const T*> sorted(new const T*[static_cast<size_t>(end - begin)], static_cast<size_t>(end - begin));
  std::copy(begin, end, sorted.begin());
  std::stable_sort(sorted.begin(), sorted.end(), [&](const T* a, const T* b) { return name(*a) < name(*b); });
  return sorted;
}

inline tenon_op_package OpPackageOf(const tenon_op_definition* const* begin, const tenon_op_definition* const* end,
                                    uint64_t flags = 0) {
  const auto ops = SortedList(begin, end, [](const tenon_op_definition& op) { return ToText(op.name); });
  return {TENON_HEAD(tenon_op_package), ops.data(), ops.size(), flags};
}

inline tenon_kernel_package KernelPackageOf(const tenon_kernel_registration* const* begin,
                                            const tenon_kernel_registration* const* end) {
  const auto kernels =
      SortedList(begin, end, [](const tenon_kernel_registration& kernel) { return ToText(kernel.op); });
  return {TENON_HEAD(tenon_kernel_package), kernels.data(), kernels.size()};
}

}  // namespace tenon::sdk

#define TENON_OP_PACKAGE(name, list, ...) \
  TENON_LIST(list, tenon_op_definition)   \
  const tenon_op_package name =           \
      ::tenon::sdk::OpPackageOf(TENON_LIST_BEGIN(list), TENON_LIST_END(list) __VA_OPT__(, ) __VA_ARGS__)

#define TENON_KERNEL_PACKAGE(name, list)      \
  TENON_LIST(list, tenon_kernel_registration) \
  const tenon_kernel_package name = ::tenon::sdk::KernelPackageOf(TENON_LIST_BEGIN(list), TENON_LIST_END(list))

#define TENON_OP_PLUGIN(id, version, doc, ...)                              \
  TENON_OP_PACKAGE(tenon_op_package_, tenon_ops __VA_OPT__(, ) __VA_ARGS__); \
  static const tenon_capability tenon_capabilities_[] = {                   \
      TENON_PROVIDES(OPS, &tenon_op_package_)};                             \
  TENON_PLUGIN(id, version, doc, tenon_capabilities_)

#define TENON_OP_AND_KERNEL_PLUGIN(id, version, doc, ...)                   \
  TENON_OP_PACKAGE(tenon_op_package_, tenon_ops __VA_OPT__(, ) __VA_ARGS__); \
  TENON_KERNEL_PACKAGE(tenon_kernel_package_, tenon_kernels);               \
  static const tenon_capability tenon_capabilities_[] = {                   \
      TENON_PROVIDES(OPS, &tenon_op_package_),                              \
      TENON_PROVIDES(KERNELS, &tenon_kernel_package_)};                     \
  TENON_PLUGIN(id, version, doc, tenon_capabilities_)

// A package that is a pass over steps (graph_pass.h), and nothing else.
#define TENON_PASS_PLUGIN(id, version, doc, pass)                                                \
  static const tenon_capability tenon_capabilities_[] = {TENON_PROVIDES(GRAPH_PASS, &(pass))}; \
  TENON_PLUGIN(id, version, doc, tenon_capabilities_)

#endif  // TENON_SDK_PACKAGE_H_
