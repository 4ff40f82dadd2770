// SPDX-License-Identifier: Apache-2.0
// What kernels of a device with queues need of their operands: shapes when they plan, addresses when they run, and
// arguments that stay on the host.
//
//   struct Slice {
//     static constexpr sdk::HostInput kHostInputs[] = {{TENON_SPAN("begin"), 1}, {TENON_SPAN("size"), 2}};
//     ...
//   };
#ifndef TENON_SDK_KERNEL_OPERANDS_H_
#define TENON_SDK_KERNEL_OPERANDS_H_

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// An argument that stays on the host: its name in the op's signature, and its input; a negative index counts from the
// last input.
struct HostInput {
  tenon_span name;
  int32_t index;
};

// A kernel class with such arguments.
template <class K>
concept HasHostInputs = requires { K::kHostInputs; };

template <class K>
constexpr size_t HostInputCount() {
  if constexpr (HasHostInputs<K>) return std::size(K::kHostInputs);
  return 0;
}
// The names, for a registration.
template <class K>
struct HostInputNames {
  static constexpr auto list = [] {
    std::array<tenon_span, HostInputCount<K>()> names = {};
    if constexpr (HasHostInputs<K>) {
      for (size_t i = 0; i < names.size(); ++i) names[i] = K::kHostInputs[i].name;
    }
    return names;
  }();
};
// Bit i: input i stays on the host. Inputs from 64 on never do.
template <class K>
uint64_t HostInputBits(int32_t input_count) {
  uint64_t bits = 0;
  if constexpr (HasHostInputs<K>) {
    for (const HostInput& host : K::kHostInputs) {
      const int32_t index = host.index < 0 ? host.index + input_count : host.index;
      if (index < 64) bits |= UINT64_C(1) << index;
    }
  }
  return bits;
}
inline bool IsHostInput(uint64_t bits, int32_t index) { return index < 64 && (bits >> index & 1) != 0; }

// Shapes of a node's operands and the values of its host arguments. Borrows the views. An index that the node has not
// is INVALID_ARGUMENT.
class OperandShapes {
 public:
  using View = tenon_tensor_view;
  OperandShapes(const View* const* inputs, int32_t input_count, const View* const* outputs, int32_t output_count,
                uint64_t host_inputs)
      : inputs_(inputs),
        outputs_(outputs),
        input_count_(input_count),
        output_count_(output_count),
        host_inputs_(host_inputs) {}

  int32_t input_count() const { return input_count_; }
  int32_t output_count() const { return output_count_; }
  const View& input(int32_t index) const { return *inputs_[InRange(index, input_count_)]; }
  const View& output(int32_t index) const { return *outputs_[InRange(index, output_count_)]; }
  const View* const* inputs() const { return inputs_; }
  Dims in(int32_t index) const { return DimsOf(input(index)); }
  Dims out(int32_t index) const { return DimsOf(output(index)); }
  bool on_host(int32_t index) const { return IsHostInput(host_inputs_, index); }
  // Whether the value of every host argument is there.
  bool complete() const {
    for (int32_t i = 0; i < std::min(input_count_, 64); ++i) {
      if (on_host(i) && input(i).dl.data == nullptr && Count(input(i)) != 0) return false;
    }
    return true;
  }
  // Element i of a host argument of an integer type.
  int64_t Integer(int32_t index, int64_t i = 0) const {
    return IndexAt(Data<const void>(input(index)), input(index).dtype, i);
  }

 private:
  static int32_t InRange(int32_t index, int32_t limit) {
    if (index < 0 || index >= limit) [[unlikely]] {
      Fail(TENON_INVALID_ARGUMENT, "the kernel needs tensor ", index, "; the node has ", limit);
    }
    return index;
  }

  const View* const* inputs_;
  const View* const* outputs_;
  int32_t input_count_, output_count_;
  uint64_t host_inputs_;
};

// Addresses of operands, by index; few of them lie in the object itself, so that a run allocates nothing.
class Operands {
 public:
  explicit Operands(int32_t count) {
    if (count > kFew) many_ = std::make_unique<char*[]>(static_cast<size_t>(count));
  }
  char** at() { return many_ == nullptr ? few_ : many_.get(); }
  char* const* at() const { return many_ == nullptr ? few_ : many_.get(); }

 private:
  static constexpr int32_t kFew = 12;
  char* few_[kFew] = {};
  std::unique_ptr<char*[]> many_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_OPERANDS_H_
