// SPDX-License-Identifier: Apache-2.0
// UniqueV2, UniqueWithCountsV2, ListDiff, NthElement, BroadcastArgs, DataFormatDimMap and DataFormatVecPermute.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/shape_kernels.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::cpu {
namespace {

using Listed = Numbers::And<bool>;

// ---- Which elements there are ----

// Elements as what they are compared by: numbers, or texts. NaN equals nothing.
template <class T>
struct NumberAt {
  explicit NumberAt(const View& view) : data(sdk::Data<const T>(view)) {}
  Wide<T> operator()(int64_t i) const { return static_cast<Wide<T>>(data[i]); }
  const T* data;
};
struct TextAt {
  explicit TextAt(const View& view) : view(&view) {}
  std::string_view operator()(int64_t i) const { return sdk::StringAt(*view, i); }
  const View* view;
};
template <class Function>
void DispatchElements(uint32_t dtype, const Function& function) {
  if (dtype == TENON_DT_STRING) return function(sdk::Tag<TextAt>{});
  Listed::Dispatch(dtype, [&]<class T>(Tag<T>) { function(sdk::Tag<NumberAt<T>>{}); });
}

// Elements `places` of an input, as an output of these dims.
void GatherList(sdk::RunContext c, int32_t output, sdk::Dims dims, const View& from,
                const std::pmr::vector<int64_t>& places) {
  if (from.dtype == TENON_DT_STRING) {
    std::pmr::vector<std::string_view> texts(places.get_allocator().resource());
    texts.reserve(places.size());
    for (const int64_t place : places) texts.push_back(sdk::StringAt(from, place));
    return sdk::SetStrings(c, output, dims, texts);
  }
  c.AllocOutput(output, dims);
  const uint64_t size = sdk::ElementSize(from.dtype);
  char* to = c.output<char>(output);
  for (const int64_t place : places) {
    std::memcpy(to, sdk::Data<const char>(from) + static_cast<uint64_t>(place) * size, size);
    to += size;
  }
}

// How many elements are looked at between two questions whether the step was given up.
constexpr int64_t kPiece = 1 << 14;

inline uint64_t HashOf(std::string_view text) { return std::hash<std::string_view>()(text); }
template <class Number>
uint64_t HashOf(Number number) {
  uint64_t bits = 0;
  const Number given = number == Number(0) ? Number(0) : number;  // 0 and -0 are equal
  std::memcpy(&bits, &given, sizeof(given));
  bits *= 0x9e3779b97f4a7c15u;
  return bits ^ bits >> 29;
}

// A slice of many elements: its number, and what its elements hash to.
struct Slice {
  int64_t number;
  uint64_t hash;
};
inline uint64_t HashOf(const Slice& slice) { return slice.hash; }

// Keys and their numbers, by a table that is at most half full. Equal(key, key); a key that does not equal itself is
// never put.
template <class Key, class Equal>
class Table {
 public:
  Table(std::pmr::memory_resource* memory, sdk::CancelPoll& poll, Equal equal)
      : entries_(1024, Entry{Key(), -1}, memory), poll_(poll), equal_(equal) {}
  // The number of the key; -1: it is not there.
  int64_t Find(const Key& key, uint64_t hash) { return At(key, hash).number; }
  // The same, where it is not there, `number` from now on.
  int64_t FindOrPut(const Key& key, uint64_t hash, int64_t number) {
    Entry& entry = At(key, hash);
    if (entry.number >= 0) return entry.number;
    entry = {key, number};
    if (2 * ++used_ >= entries_.size()) Grow();
    return number;
  }

 private:
  struct Entry {
    Key key;
    int64_t number;
  };
  Entry& At(const Key& key, uint64_t hash) {
    uint64_t at = hash & (entries_.size() - 1);
    for (; entries_[at].number >= 0 && !equal_(entries_[at].key, key); at = (at + 1) & (entries_.size() - 1)) poll_();
    return entries_[at];
  }
  void Grow() {
    const std::pmr::vector<Entry> before(std::move(entries_), entries_.get_allocator().resource());
    const size_t size = 2 * before.size();
    entries_.reserve(size);
    while (entries_.size() < size) {
      entries_.resize(std::min(size, entries_.size() + kPiece), Entry{Key(), -1});
      poll_(4 * kPiece);
    }
    for (const Entry& one : before) {
      if (one.number >= 0) At(one.key, HashOf(one.key)) = one;
      poll_(10);
    }
  }
  std::pmr::vector<Entry> entries_;
  size_t used_ = 0;
  sdk::CancelPoll& poll_;
  Equal equal_;
};

template <bool kCounts>
struct UniqueV2Kernel {
  void Run(sdk::RunContext c) const {
    const View &x = c.input_view(0), &axes = c.input_view(1);
    const sdk::Dims dims = sdk::DimsOf(x);
    const auto rank = static_cast<int64_t>(dims.size());
    int64_t axis = 0;
    if (axes.dl.ndim > 1 || sdk::Count(axes) > 1)
      sdk::Fail(TENON_INVALID_ARGUMENT, "axis must have one element at most; its shape is ", sdk::DimsOf(axes));
    if (sdk::Count(axes) == 1) {
      const int64_t given = IndexAt(sdk::Data<void>(axes), axes.dtype, 0);
      axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank)
        sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is outside of [", -rank, ", ", rank, ")");
    } else if (rank != 1) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "unique expects a 1D vector; the shape is ", dims);
    }
    const auto at = static_cast<size_t>(axis);
    const int64_t outer = sdk::Count(dims.first(at)), n = dims[at], inner = sdk::Count(dims.subspan(at + 1));
    // Where element k of slice i is.
    const auto place = [&](int64_t i, int64_t k) { return (k / inner * n + i) * inner + k % inner; };
    const int64_t width = outer * inner;
    sdk::StepMemory memory(c);
    std::pmr::vector<int64_t> numbers(&memory),
        firsts(&memory);  // of each slice the first that equals it; the distinct ones
    numbers.reserve(static_cast<size_t>(n));
    DispatchElements(x.dtype, [&]<class At>(sdk::Tag<At>) {
      const At element(x);
      sdk::CancelPoll poll(c);
      const auto odd = [&](int64_t i) {
        for (int64_t k = 0; k < width; ++k)
          if (!(element(place(i, k)) == element(place(i, k)))) return true;
        return false;
      };
      const auto same = [&](int64_t a, int64_t b) {
        poll(width);
        for (int64_t k = 0; k < width; ++k)
          if (!(element(place(a, k)) == element(place(b, k)))) return false;
        return true;
      };
      if (width == 1) {
        using Value = decltype(element(0));
        Table<Value, std::equal_to<>> table(&memory, poll, {});
        for (int64_t i = 0; i < n; ++i) {
          const Value value = element(i);
          poll(30);
          numbers.push_back(value == value ? table.FindOrPut(value, HashOf(value), i) : i);
        }
        return;
      }
      const auto equal = [&same](const Slice& a, const Slice& b) {
        return a.hash == b.hash && same(a.number, b.number);
      };
      Table<Slice, decltype(equal)> table(&memory, poll, equal);
      for (int64_t i = 0; i < n; ++i) {
        uint64_t hash = 0;
        for (int64_t k = 0; k < width; ++k)
          hash = (hash ^ HashOf(element(place(i, k)))) * 0x9e3779b97f4a7c15u, hash ^= hash >> 32;
        poll(width);
        numbers.push_back(odd(i) ? i : table.FindOrPut({i, hash}, hash, i));
      }
    });
    c.AllocOutput(1, std::array{n});
    std::pmr::vector<int64_t> counts(&memory), places(&memory);
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < n; ++i) {
      poll(10);
      int64_t& number = numbers[static_cast<size_t>(i)];
      if (number == i) {
        number = static_cast<int64_t>(firsts.size());
        firsts.push_back(i);
        counts.push_back(0);
      } else {
        number = numbers[static_cast<size_t>(number)];
      }
      ++counts[static_cast<size_t>(number)];
      sdk::Put(c.output_view(1), i, number);
    }
    std::vector<int64_t> shape(dims.begin(), dims.end());
    shape[at] = static_cast<int64_t>(firsts.size());
    for (int64_t o = 0; o < outer; ++o)
      for (const int64_t first : firsts) {
        poll(4 * inner);
        for (int64_t k = 0; k < inner; ++k) places.push_back((o * n + first) * inner + k);
      }
    GatherList(c, 0, shape, x, places);
    if (!kCounts) return;
    c.AllocOutput(2, std::array{shape[at]});
    for (size_t i = 0; i < counts.size(); ++i) sdk::Put(c.output_view(2), static_cast<int64_t>(i), counts[i]);
  }
};

struct ListDiffKernel {
  void Run(sdk::RunContext c) const {
    const View &x = c.input_view(0), &y = c.input_view(1);
    if (x.dl.ndim != 1 || y.dl.ndim != 1)
      sdk::Fail(TENON_INVALID_ARGUMENT, "x and y must be vectors; their shapes are ", sdk::DimsOf(x), " and ",
                sdk::DimsOf(y));
    sdk::StepMemory memory(c);
    std::pmr::vector<int64_t> places(&memory);
    DispatchElements(x.dtype, [&]<class At>(sdk::Tag<At>) {
      const At element(x), other(y);
      using Value = decltype(other(0));
      sdk::CancelPoll poll(c);
      Table<Value, std::equal_to<>> removed(&memory, poll, {});
      for (int64_t i = 0, count = sdk::Count(y); i < count; poll(10), ++i) {
        const Value value = other(i);
        if (value == value) removed.FindOrPut(value, HashOf(value), i);
      }
      for (int64_t i = 0, count = sdk::Count(x); i < count; poll(10), ++i) {
        const Value value = element(i);
        if (!(value == value) || removed.Find(value, HashOf(value)) < 0) places.push_back(i);
      }
    });
    const auto count = static_cast<int64_t>(places.size());
    GatherList(c, 0, std::array{count}, x, places);
    c.AllocOutput(1, std::array{count});
    for (int64_t i = 0; i < count; ++i) sdk::Put(c.output_view(1), i, places[static_cast<size_t>(i)]);
  }
};

struct NthElementKernel {
  explicit NthElementKernel(sdk::CreateContext& c) : reverse(c.Bool("reverse")) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "Input must be >= 1-D, got shape []");
    const int64_t columns = dims.back(), n = *c.input<int32_t>(1);
    if (n < 0 || n >= columns)
      sdk::Fail(TENON_INVALID_ARGUMENT, "Input must have at least n+1 columns; n is ", n, ", of ", columns, " columns");
    const int64_t wanted = reverse ? columns - 1 - n : n;
    Numbers::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(sdk::Count(dims) / columns, 100 + 5.0 * static_cast<double>(columns),
                    [&](int64_t begin, int64_t end) {
                      std::vector<T> row(static_cast<size_t>(columns));
                      sdk::CancelPoll poll(c);
                      for (int64_t i = begin; i < end; ++i) {
                        std::copy_n(c.input<T>(0) + i * columns, columns, row.begin());
                        // NaN comes last, so that there is an order.
                        std::nth_element(row.begin(), row.begin() + wanted, row.end(), [&poll](const T& a, const T& b) {
                          poll(2);
                          const Wide<T> u = a, v = b;
                          if constexpr (kIsReal<T>) {
                            if (u != u || v != v) return u == u;
                          }
                          return u < v;
                        });
                        c.output<T>(0)[i] = row[static_cast<size_t>(wanted)];
                      }
                    });
    });
  }
  bool reverse;
};

// ---- Lists of dims ----

struct BroadcastArgsKernel {
  void Run(sdk::RunContext c) const {
    const View *a = &c.input_view(0), *b = &c.input_view(1);
    if (sdk::Count(*a) < sdk::Count(*b)) std::swap(a, b);
    const int64_t longer = sdk::Count(*a), missing = longer - sdk::Count(*b);
    for (int64_t i = 0; i < longer; ++i) {
      const int64_t x = IndexAt(sdk::Data<void>(*a), a->dtype, i),
                    y = i < missing ? 1 : IndexAt(sdk::Data<void>(*b), b->dtype, i - missing);
      if (x != y && x != 1 && y != 1)
        sdk::Fail(TENON_INVALID_ARGUMENT, "Incompatible shapes: dims ", x, " and ", y, " do not broadcast");
      sdk::Put(c.output_view(0), i, x == 1 ? y : x);
    }
  }
};

// Two orders of the same letters, each a dim.
struct Formats {
  explicit Formats(sdk::CreateContext& c) : source(c.String("src_format")), target(c.String("dst_format")) {
    if (source.size() != 4 && source.size() != 5)
      c.Invalid("src_format must be of length 4 or 5, received '", source, "'");
    if (target.size() != source.size())
      c.Invalid("dst_format '", target, "' must be as long as src_format '", source, "'");
    std::string one = source, other = target;
    std::sort(one.begin(), one.end());
    std::sort(other.begin(), other.end());
    if (one != other || std::adjacent_find(one.begin(), one.end()) != one.end())
      c.Invalid("dst_format '", target, "' is not a permutation of src_format '", source, "'");
  }
  std::string source, target;
};

struct DimMapKernel : Formats {
  using Formats::Formats;
  void Run(sdk::RunContext c) const {
    const View& x = c.input_view(0);
    const auto n = static_cast<int64_t>(source.size());
    for (int64_t i = 0; i < sdk::Count(x); ++i) {
      const int64_t given = IndexAt(sdk::Data<void>(x), x.dtype, i), dim = given < 0 ? given + n : given;
      if (dim < 0 || dim >= n)
        sdk::Fail(TENON_INVALID_ARGUMENT, "x[", i, "] = ", given, " is not in [", -n, ", ", n, ")");
      sdk::Put(c.output_view(0), i, static_cast<int64_t>(target.find(source[static_cast<size_t>(dim)])));
    }
  }
};

struct VecPermuteKernel : Formats {
  using Formats::Formats;
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    const auto all = static_cast<int64_t>(source.size());
    if (dims.empty() || dims.size() > 2 || (dims[0] != all && dims[0] != all - 2) || (dims.size() == 2 && dims[1] != 2))
      sdk::Fail(TENON_INVALID_ARGUMENT, "a number or pair for each of ", all - 2, " or of ", all,
                " dims is needed; the shape is ", dims);
    std::string from = source, to = target;
    if (dims[0] != all)
      for (std::string* format : {&from, &to})
        std::erase_if(*format, [](char letter) { return letter == 'N' || letter == 'C'; });
    if (static_cast<int64_t>(from.size()) != dims[0])
      sdk::Fail(TENON_INVALID_ARGUMENT, "without N and C the format '", source, "' has ", from.size(), " dims; x has ",
                dims[0]);
    const int64_t each = dims.size() == 2 ? 2 : 1;
    for (int64_t i = 0; i < dims[0]; ++i)
      for (int64_t k = 0; k < each; ++k) {
        const auto place = static_cast<int64_t>(from.find(to[static_cast<size_t>(i)]));
        sdk::Put(c.output_view(0), i * each + k,
                 IndexAt(sdk::Data<void>(c.input_view(0)), c.input_view(0).dtype, place * each + k));
      }
  }
};

using OfStrings = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>;

}  // namespace

TENON_CPU_KERNEL(UniqueV2) = CpuKernel<UniqueV2Kernel<false>>(
    "UniqueV2", {.constraints = sdk::Constraints<Listed::Constraint<"T">>::list, .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(UniqueV2String) = CpuKernel<UniqueV2Kernel<false>>("UniqueV2", {.constraints = OfStrings::list,
                                                                                 .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(UniqueWithCountsV2) = CpuKernel<UniqueV2Kernel<true>>(
    "UniqueWithCountsV2",
    {.constraints = sdk::Constraints<Listed::Constraint<"T">>::list, .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(UniqueWithCountsV2String) = CpuKernel<UniqueV2Kernel<true>>("UniqueWithCountsV2",
                                                                             {.constraints = OfStrings::list,
                                                                              .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(ListDiff) = CpuKernel<ListDiffKernel>("ListDiff",
                                                       {.constraints = sdk::Constraints<Listed::Constraint<"T">>::list,
                                                        .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(ListDiffString) = CpuKernel<ListDiffKernel>("ListDiff", {.constraints = OfStrings::list,
                                                                          .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(NthElement) =
    CpuKernel<NthElementKernel>("NthElement", {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list});
TENON_CPU_KERNEL(BroadcastArgs) =
    CpuKernel<BroadcastArgsKernel>("BroadcastArgs", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});
TENON_CPU_KERNEL(DataFormatDimMap) =
    CpuKernel<DimMapKernel>("DataFormatDimMap", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});
TENON_CPU_KERNEL(DataFormatVecPermute) = CpuKernel<VecPermuteKernel>(
    "DataFormatVecPermute", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});

}  // namespace tenon::cpu
