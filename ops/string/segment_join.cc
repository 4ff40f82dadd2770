// SPDX-License-Identifier: Apache-2.0
// UnsortedSegmentJoin: texts joined by the number of their segment.
#include <algorithm>
#include <numeric>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

int64_t NumberAt(const tenon_tensor_view& view, int64_t i) {
  return view.dtype == TENON_DT_INT32 ? Data<const int32_t>(view)[i] : Data<const int64_t>(view)[i];
}

struct SegmentJoin {
  explicit SegmentJoin(CreateContext& c) : separator(c.String("separator")) {}
  void Run(RunContext c) const {
    const tenon_tensor_view &input = c.input_view(0), &ids = c.input_view(1);
    const Dims dims = DimsOf(input), id_dims = DimsOf(ids);
    const int64_t segments = NumberAt(c.input_view(2), 0);
    if (segments < 0) Fail(TENON_INVALID_ARGUMENT, "Number of segments must be non-negative, got ", segments);
    if (id_dims.empty()) Fail(TENON_INVALID_ARGUMENT, "Segment_id cannot have rank 0");
    if (id_dims.size() > dims.size() || !std::equal(id_dims.begin(), id_dims.end(), dims.begin()))
      Fail(TENON_INVALID_ARGUMENT, "segment_ids' shape ", id_dims, " is no prefix of the inputs' shape ", dims);
    const Dims inner = dims.subspan(id_dims.size());
    std::vector<int64_t> out = {segments};
    out.insert(out.end(), inner.begin(), inner.end());
    const int64_t row = Count(inner), rows = Count(ids);
    NewTensor(c, TENON_DT_STRING, out);  // whether there is memory for so many
    // The rows in the order of their segments, and among them as they stand: how many each has says where its own
    // begin.
    StepMemory memory(c);
    std::pmr::vector<int64_t> order(static_cast<size_t>(rows), &memory), ends(static_cast<size_t>(segments), &memory);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t id = NumberAt(ids, i);
      if (id < 0 || id >= segments)
        Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", id, " is out of range [0, ", segments, ")");
      ++ends[static_cast<size_t>(id)];
    }
    std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), int64_t{0});
    for (int64_t i = 0; i < rows; ++i) order[static_cast<size_t>(ends[static_cast<size_t>(NumberAt(ids, i))]++)] = i;
    Texts texts(c);
    for (size_t first = 0, segment = 0; segment < static_cast<size_t>(segments); ++segment) {
      const auto end = static_cast<size_t>(ends[segment]);
      for (int64_t k = 0; k < row; ++k) {
        for (size_t i = first; i < end; ++i) {
          if (!texts.Begun().empty()) texts.Append(separator);  // none behind nothing, as TensorFlow has it
          texts.Append(StringAt(input, order[i] * row + k));
        }
        texts.Poll(0);
        texts.End();
      }
      first = end;
    }
    texts.Give(0, out);
  }
  std::string separator;
};

void SegmentJoinShape(ShapeContext& c) {
  const Shape input = c.Input(0), ids = c.Input(1);
  c.WithRank(2, 0);
  const auto segments = c.Integer(2);
  if (segments.has_value() && *segments < 0)
    return c.Invalid("Number of segments must be non-negative, got ", *segments);
  if (!input.known_rank() || !ids.known_rank()) return;
  if (ids.rank() > input.rank())
    return c.Invalid("segment_ids' shape ", ids, " is no prefix of the inputs' shape ", input);
  for (int i = 0; i < ids.rank(); ++i) c.Merge(input[i], ids[i], "the dims of inputs and segment_ids");
  Shape out{segments.value_or(kUnknown)};
  for (int i = ids.rank(); i < input.rank(); ++i) out.Append(input[i]);
  c.SetOutput(0, out);
}

}  // namespace

TENON_KERNEL(kUnsortedSegmentJoinKernel) = Registration<SegmentJoin>("UnsortedSegmentJoin", {.dynamic_outputs = 1});

TENON_OP(kUnsortedSegmentJoin) = DefineOp({
    .name = "UnsortedSegmentJoin",
    .inputs = "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments",
    .outputs = "output: string",
    .attrs = "separator: string = ''; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = int32",
    .constraints = "rank(num_segments) == 0",
    .doc = "The texts of each segment joined in their order, with the separator between them.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SegmentJoinShape>,
});

}  // namespace tenon::ops
