// SPDX-License-Identifier: Apache-2.0
// What collectives between tasks are made of (pass.cc): parts of a tensor's elements, merges of them, and the whole put
// together. Their names are not TensorFlow's; only that pass adds them to graphs, all on hosts.
//
// Part p of `parts` of n elements: equal shares in whole units of kUnit elements, so that parts begin on cache lines;
// the last ones may be smaller, or empty.
#include <algorithm>
#include <cstring>
#include <limits>

#include "fold.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr int64_t kUnit = 64;

struct Part {
  int64_t begin = 0, count = 0;
};
Part PartOf(int64_t elements, int64_t part, int64_t parts) {
  if (parts == 1) return {0, elements};
  const int64_t units = elements / kUnit + (elements % kUnit != 0 ? 1 : 0);
  const int64_t share = (units / parts + (units % parts != 0 ? 1 : 0)) * kUnit;
  const int64_t begin =
      part > elements / share ? elements : std::min(elements, part * share);  // share is 0 for nothing
  return {begin, std::min(share, elements - begin)};
}
Part PartOfNone(int64_t elements, int64_t part, int64_t parts) {
  return elements == 0 ? Part{} : PartOf(elements, part, parts);
}

// [elements of the part], or the whole's shape when it is one part.
void SetPartShape(ShapeContext& c) {
  const int64_t part = c.Int("part"), parts = c.Int("parts");
  if (c.ok() && (part < 0 || part >= parts)) return c.Invalid("part ", part, " of ", parts);
  const Shape whole = c.Input(0);
  if (parts == 1) return c.SetOutput(0, whole);
  c.SetOutput(0, Shape({whole.fully_known() && whole.elements() >= 0 ? PartOfNone(whole.elements(), part, parts).count
                                                                     : kUnknown}));
}

struct Copied {
  explicit Copied(CreateContext& c) : part(c.Int("part")), parts(c.Int("parts")) {}
  void Run(RunContext c) const {
    const tenon_tensor_view& whole = c.input_view(0);
    const auto size = static_cast<int64_t>(ElementSize(whole.dtype));
    const Part own = PartOfNone(Count(whole), part, parts);
    const char* const from = Data<const char>(whole) + own.begin * size;
    if (Count(c.output_view(0)) != own.count)
      Fail(TENON_INVALID_ARGUMENT, "part ", part, " has ", own.count, " elements; its room is of ",
           Count(c.output_view(0)));
    char* const to = c.output<char>(0);
    c.ParallelFor(own.count, 0.3, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin * size, from + begin * size, static_cast<size_t>((end - begin) * size));
    });
  }
  int64_t part, parts;
};

struct Merging {
  explicit Merging(CreateContext& c)
      : part(c.Int("part")), parts(c.Int("parts")), position(c.Int("position")), divisor(c.Int("divisor")) {
    merge = MergeOf(c.String("merge_op"));
    // As int32 it would be another number, perhaps 0.
    if (c.ok() && divisor > std::numeric_limits<int32_t>::max())
      c.Invalid("divisor ", divisor, " is no number of members");
    if (c.ok() && (position < 0 || position >= c.input_count()))
      c.Invalid("position ", position, " among ", c.input_count(), " sources");
  }
  void Run(RunContext c) const {
    const Part own = PartOfNone(Count(c.input_view(0)), part, parts);
    for (int32_t i = 1; i < c.input_count(); ++i) {
      if (Count(c.input_view(i)) != own.count)
        Fail(TENON_INVALID_ARGUMENT, "members of a reduction must have one shape: where one member's part has ",
             own.count, " elements, another's has ", Count(c.input_view(i)));
    }
    if (Count(c.output_view(0)) != own.count)
      Fail(TENON_INVALID_ARGUMENT, "a part of ", own.count, " elements has room for ", Count(c.output_view(0)));
    CollectiveElements::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const auto source = [&](size_t k) {
        const auto at = static_cast<int64_t>(k);
        return at == position ? c.input<T>(0) + own.begin
                              : c.input<T>(static_cast<int32_t>(at < position ? at + 1 : at));
      };
      const auto count = static_cast<size_t>(c.input_count());
      WithMerge(merge, [&](const auto& op) {
        c.ParallelFor(own.count, 0.3 * static_cast<double>(count), [&](int64_t begin, int64_t end) {
          Fold(count, source, op, divisor, begin, end, c.output<T>(0));
        });
      });
    });
  }
  int64_t part, parts, position, divisor;
  CollectiveMerge merge;
};

// The first input says the shape alone; its memory may be the output's.
struct Joining {
  void Run(RunContext c) const {
    const tenon_tensor_view& whole = c.output_view(0);
    const auto size = static_cast<int64_t>(ElementSize(whole.dtype));
    const int64_t parts = c.input_count() - 1;
    for (int64_t k = 0; k < parts; ++k) {
      const Part part = PartOfNone(Count(whole), k, parts);
      const tenon_tensor_view& from = c.input_view(static_cast<int32_t>(k) + 1);
      if (Count(from) != part.count)
        Fail(TENON_INVALID_ARGUMENT, "part ", k, " of a tensor of shape ", DimsOf(whole), " has ", Count(from),
             " elements; it should have ", part.count);
      const char* const source = Data<const char>(from);
      char* const to = Data<char>(whole) + part.begin * size;
      c.ParallelFor(part.count, 0.3, [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin * size, source + begin * size, static_cast<size_t>((end - begin) * size));
      });
    }
  }
};

constexpr Traits kPlain = {.flags = TENON_KERNEL_DETERMINISTIC};
constexpr Traits kInPlace = {.in_place = kInPlaceFirst, .flags = TENON_KERNEL_DETERMINISTIC};

void JoinedShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

}  // namespace

TENON_KERNEL(kCollectivePartKernel) = Registration<Copied>("Tenon>CollectivePart", kPlain);
TENON_KERNEL(kCollectiveMergeKernel) = Registration<Merging>("Tenon>CollectiveMerge", kPlain);
TENON_KERNEL(kCollectiveJoinKernel) = Registration<Joining>("Tenon>CollectiveJoin", kInPlace);

TENON_OP(kCollectivePart) = DefineOp({
    .name = "Tenon>CollectivePart",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; part: int >= 0; parts: int >= 1",
    .doc = "One of `parts` equal parts of the elements, as a vector; the whole as it is when it is the only one. For "
           "collectives between tasks.",
    .shape = ShapeFunction<SetPartShape>,
});

TENON_OP(kCollectiveMerge) = DefineOp({
    .name = "Tenon>CollectiveMerge",
    .inputs = "input: T, others: N * T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; N: int >= 1; part: int >= 0; parts: int >= 1; "
             "position: int >= 0; merge_op: {'Min', 'Max', 'Mul', 'Add'}; divisor: int >= 0 = 0",
    .doc = "That part of input's elements merged with others, which are such parts, in their order, input's after "
           "`position` of them; then divided by divisor unless it is 0. For collectives between tasks.",
    .shape = ShapeFunction<SetPartShape>,
});

TENON_OP(kCollectiveJoin) = DefineOp({
    .name = "Tenon>CollectiveJoin",
    .inputs = "like: T, parts: N * T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; N: int >= 1",
    .doc = "The parts one after the other, in the shape of `like`. For collectives between tasks.",
    .shape = ShapeFunction<JoinedShape>,
});

}  // namespace tenon::ops
