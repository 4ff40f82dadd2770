// SPDX-License-Identifier: Apache-2.0
// Ops whose output shapes depend on values: Unique, DynamicStitch, DynamicPartition.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/moves/strided_copy.h"
#include "tenon/extras/kernel/shape_kernels.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/row_shape.h"

namespace tenon::cpu {
namespace {

using UniqueTypes = Numbers::And<bool>;

void PutIndex(const View& view, int64_t i, int64_t value) {
  if (view.dtype == TENON_DT_INT64) {
    sdk::Data<int64_t>(view)[i] = value;
  } else {
    sdk::Data<int32_t>(view)[i] = static_cast<int32_t>(value);
  }
}
// Output 2: how often each of the `found` values stands in output 1.
void CountEach(sdk::RunContext c, int64_t found) {
  c.AllocOutput(2, sdk::Dims(&found, 1));
  const View &places = c.output_view(1), &counts = c.output_view(2);
  std::memset(sdk::Data<char>(counts), 0, counts.byte_size);
  sdk::CancelPoll poll(c);
  for (int64_t i = 0; i < sdk::Count(places); poll(), ++i) {
    const int64_t at = IndexAt(sdk::Data<void>(places), places.dtype, i);
    PutIndex(counts, at, IndexAt(sdk::Data<void>(counts), counts.dtype, at) + 1);
  }
}

// A hash table with open addressing in the workspace: positions of first occurrence.

template <bool kCounts>
struct UniqueKernel {
  struct Plan {
    Plan(const UniqueKernel&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {
      while (slots < 2 * count) slots = sdk::Multiply(slots, 2);
      table = c.Workspace(sdk::Multiply(slots, 8));
      firsts = c.Workspace(sdk::Multiply(count, 8));
    }
    int64_t count, slots = 16, table, firsts;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    UniqueTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      int64_t* table = c.workspace<int64_t>(plan.table);    // 1 + number of the value; 0 is free
      int64_t* firsts = c.workspace<int64_t>(plan.firsts);  // where the value came first
      const View& index_view = c.output_view(1);
      int64_t found = 0;
      sdk::CancelPoll poll(c);
      constexpr int64_t kPiece = 1 << 20, kMiss = 50;
      for (int64_t i = 0; i < plan.slots; i += kPiece, poll(kPiece))
        std::fill_n(table + i, std::min(kPiece, plan.slots - i), 0);
      for (int64_t i = 0; i < plan.count; ++i) {
        poll(kMiss);
        if (x[i] != x[i]) {  // a NaN equals nothing, so it is always new
          firsts[found] = i;
          PutIndex(index_view, i, found++);
          continue;
        }
        const T value = x[i] == T(0) ? T(0) : x[i];  // -0.0 is 0.0
        uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof(T));
        uint64_t slot = bits * UINT64_C(0x9E3779B97F4A7C15);
        slot ^= slot >> 32;
        for (;; poll(), ++slot) {  // values may be chosen so that all fall on one place
          int64_t& entry = table[slot & static_cast<uint64_t>(plan.slots - 1)];
          if (entry == 0) {
            firsts[found] = i;
            entry = ++found;
          } else if (!(x[firsts[entry - 1]] == x[i])) {
            continue;
          }
          PutIndex(index_view, i, entry - 1);
          break;
        }
      }
      c.AllocOutput(0, sdk::Dims(&found, 1));
      T* out = c.output<T>(0);
      for (int64_t i = 0; i < found; ++i, poll(10)) out[i] = x[firsts[i]];
      if (kCounts) CountEach(c, found);
    });
  }
};

template <bool kCounts>
struct UniqueStringKernel {
  void Run(sdk::RunContext c) const {
    const int64_t count = sdk::Count(c.input_view(0));
    std::unordered_map<std::string_view, int64_t> numbers;
    std::vector<std::string_view> found;
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = sdk::StringAt(c.input_view(0), i);
      poll(100 + static_cast<int64_t>(text.size()));
      const auto [entry, is_new] = numbers.try_emplace(text, static_cast<int64_t>(found.size()));
      if (is_new) found.push_back(text);
      PutIndex(c.output_view(1), i, entry->second);
    }
    const auto size = static_cast<int64_t>(found.size());
    sdk::SetStrings(c, 0, sdk::Dims(&size, 1), found);
    if (kCounts) CountEach(c, size);
  }
};

struct DynamicStitchStringKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Stitch stitch(c);
    std::vector<std::string_view> out(static_cast<size_t>(sdk::Multiply(stitch.rows, stitch.width)));
    for (int32_t k = 0; k < stitch.n; ++k) {
      const View& data = c.input_view(stitch.n + k);
      for (int64_t i = 0; i < sdk::Count(data); ++i)
        out[static_cast<size_t>(c.input<int32_t>(k)[i / stitch.width] * stitch.width + i % stitch.width)] =
            sdk::StringAt(data, i);
    }
    CheckRank(stitch.tail);
    std::vector<int64_t> shape = {stitch.rows};
    shape.insert(shape.end(), stitch.tail.begin(), stitch.tail.end());
    sdk::SetStrings(c, 0, shape, out);
  }
};

// How many rows go to each output, in sizes; the dims of a row.
sdk::Dims CountParts(sdk::RunContext c, int64_t* sizes) {
  const sdk::Dims parts = sdk::DimsOf(c.input_view(1)),
                  tail = sdk::TailOf("partitions", parts, sdk::DimsOf(c.input_view(0)));
  CheckRank(tail);
  const int64_t count = sdk::Count(parts);
  const int32_t* part = c.input<int32_t>(1);
  std::fill_n(sizes, c.output_count(), int64_t{0});
  for (int64_t i = 0; i < count; ++i) {
    if (part[i] < 0 || part[i] >= c.output_count()) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "partitions[", i, "] = ", part[i], " is not in [0, ", c.output_count(), ")");
    }
    ++sizes[part[i]];
  }
  return tail;
}

struct DynamicPartitionKernel {
  struct Plan {
    Plan(const DynamicPartitionKernel&, sdk::PrepareContext& c) { c.Workspace(16 * (c.output_count() + 1)); }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    int64_t* sizes = c.workspace<int64_t>();
    const sdk::Dims tail = CountParts(c, sizes);
    const int64_t width = sdk::Count(tail) * static_cast<int64_t>(sdk::ElementSize(c.input_view(0).dtype));
    const int64_t count = sdk::Count(c.input_view(1));
    const int32_t* part = c.input<int32_t>(1);
    for (int32_t k = 0; k < c.output_count(); ++k) {
      sdk::AllocRows(c, k, sizes[k], tail);
      sizes[k] = 0;
    }
    sdk::CancelPoll poll(c);
    if (sdk::Count(tail) == 1)
      return DispatchSize(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
        Share<T>(c, count, reinterpret_cast<T**>(sizes + c.output_count()), poll);
      });
    const char* from = c.input<char>(0);
    for (int64_t i = 0; i < count && width != 0; poll(1 + width / 8), ++i) {
      std::memcpy(c.output<char>(part[i]) + sizes[part[i]]++ * width, from + i * width, static_cast<size_t>(width));
    }
  }

 private:
  // Rows of one element. next: room for a pointer for each output.
  template <class T>
  static void Share(const sdk::RunContext& c, int64_t count, T** next, sdk::CancelPoll& poll) {
    constexpr int64_t kPiece = 1 << 14;
    const int32_t* part = c.input<int32_t>(1);
    const T* from = c.input<T>(0);
    for (int32_t k = 0; k < c.output_count(); ++k) next[k] = c.output<T>(k);
    for (int64_t first = 0; first < count; first += kPiece, poll(kPiece))
      for (int64_t i = first, last = std::min(count, first + kPiece); i < last; ++i) *next[part[i]]++ = from[i];
  }
};

struct DynamicPartitionStringKernel : DynamicPartitionKernel {
  struct Plan : DynamicPartitionKernel::Plan {
    Plan(const DynamicPartitionStringKernel& kernel, sdk::PrepareContext& c)
        : DynamicPartitionKernel::Plan(kernel, c) {}
  };
  void Run(const Plan&, sdk::RunContext c) const {
    int64_t* sizes = c.workspace<int64_t>();
    const sdk::Dims tail = CountParts(c, sizes);
    const int64_t width = sdk::Count(tail);
    std::vector<std::vector<std::string_view>> parts(static_cast<size_t>(c.output_count()));
    for (int64_t i = 0; i < sdk::Count(c.input_view(0)); ++i)
      parts[static_cast<size_t>(c.input<int32_t>(1)[i / width])].push_back(sdk::StringAt(c.input_view(0), i));
    std::array<int64_t, kMaxRank + 1> shape = {};
    std::copy(tail.begin(), tail.end(), shape.begin() + 1);
    for (int32_t k = 0; k < c.output_count(); ++k) {
      shape[0] = sizes[k];
      sdk::SetStrings(c, k, {shape.data(), tail.size() + 1}, parts[static_cast<size_t>(k)]);
    }
  }
};

constexpr sdk::Traits PlainTraits(uint64_t dynamic) {
  return {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .dynamic_outputs = dynamic};
}
constexpr sdk::Traits Strings(uint64_t dynamic) {
  return {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list, .dynamic_outputs = dynamic};
}

}  // namespace

TENON_CPU_KERNEL(Unique) = CpuKernel<UniqueKernel<false>>(
    "Unique", {.constraints = sdk::Constraints<UniqueTypes::Constraint<"T">>::list, .dynamic_outputs = 1});
TENON_CPU_KERNEL(UniqueWithCounts) = CpuKernel<UniqueKernel<true>>(
    "UniqueWithCounts",
    {.constraints = sdk::Constraints<UniqueTypes::Constraint<"T">>::list, .dynamic_outputs = 0b101});
TENON_CPU_KERNEL(DynamicStitch) = CpuKernel<sdk::DynamicStitchKernel>("DynamicStitch", PlainTraits(1));
TENON_CPU_KERNEL(DynamicPartition) = CpuKernel<DynamicPartitionKernel>("DynamicPartition",
                                                                       PlainTraits(TENON_DYNAMIC_ALL));
TENON_CPU_KERNEL(UniqueString) = CpuKernel<UniqueStringKernel<false>>("Unique", Strings(1));
TENON_CPU_KERNEL(UniqueWithCountsString) = CpuKernel<UniqueStringKernel<true>>("UniqueWithCounts", Strings(0b101));
TENON_CPU_KERNEL(DynamicStitchString) = CpuKernel<DynamicStitchStringKernel>("DynamicStitch", Strings(1));
TENON_CPU_KERNEL(DynamicPartitionString) =
    CpuKernel<DynamicPartitionStringKernel>("DynamicPartition", Strings(TENON_DYNAMIC_ALL));
}  // namespace tenon::cpu
