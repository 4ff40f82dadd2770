// SPDX-License-Identifier: Apache-2.0
#include "region/edge_moves.h"

#include <algorithm>
#include <cstring>

#include "region/failure.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/gather_shape.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu_codegen {
namespace {

// Elements of dims of which none is unknown; -1: one is, or there are too many.
int64_t KnownCount(sdk::Dims dims) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && count > kMost / dim)) return -1;
    count *= dim;
  }
  return count;
}

// Rows of a box: from[d] on `size[d]` of whole[d] elements in each dim, of which one alone is not all.
Part PartOfBox(sdk::Dims whole, const std::vector<int64_t>& from, const std::vector<int64_t>& size, int64_t bytes) {
  size_t axis = 0, cut = 0;
  for (size_t d = 0; d < whole.size(); ++d)
    if (size[d] != whole[d]) axis = d, ++cut;
  if (cut > 1) sdk::Fail(TENON_UNIMPLEMENTED, "a slice of several dims");
  const int64_t behind = sdk::Count(whole.subspan(axis + 1));
  Part part;
  part.size = bytes;
  part.row = size[axis] * behind;
  part.stride = whole[axis] * behind * bytes;
  part.offset = from[axis] * behind * bytes;
  part.is_one_row = sdk::Count(whole.first(axis)) == 1;
  return part;
}

// Parts of one value, side by side in the dim in which they differ from it.
Part PartOfSplit(int32_t index, sdk::Dims whole, const std::vector<sdk::Dims>& outputs, int64_t bytes) {
  const sdk::Dims own = outputs[static_cast<size_t>(index)];
  if (own.size() != whole.size()) sdk::Fail(TENON_UNIMPLEMENTED, "a split whose parts have another rank");
  std::vector<int64_t> from(whole.size(), 0);
  for (size_t d = 0; d < whole.size(); ++d) {
    if (own[d] == whole[d]) continue;
    for (int32_t k = 0; k < index; ++k) from[d] += outputs[static_cast<size_t>(k)][d];
    if (from[d] + own[d] > whole[d]) sdk::Fail(TENON_UNIMPLEMENTED, "a split whose parts are more than the whole");
  }
  return PartOfBox(whole, from, {own.begin(), own.end()}, bytes);
}

Part PartOfUnpack(int64_t axis, int32_t index, sdk::Dims whole, int64_t bytes) {
  if (axis < 0) axis += static_cast<int64_t>(whole.size());
  if (axis < 0 || axis >= static_cast<int64_t>(whole.size()) || index >= whole[static_cast<size_t>(axis)])
    sdk::Fail(TENON_UNIMPLEMENTED, "an axis that its kernel refuses");
  std::vector<int64_t> from(whole.size(), 0), size(whole.begin(), whole.end());
  from[static_cast<size_t>(axis)] = index;
  size[static_cast<size_t>(axis)] = 1;
  return PartOfBox(whole, from, size, bytes);
}

Part PartOfSlice(sdk::Dims whole, sdk::Dims own, const tenon_tensor_view& begin, int64_t bytes) {
  if (own.size() != whole.size() || sdk::Count(begin) != static_cast<int64_t>(whole.size()))
    sdk::Fail(TENON_UNIMPLEMENTED, "a slice that its kernel refuses");
  std::vector<int64_t> from;
  for (size_t d = 0; d < whole.size(); ++d) {
    from.push_back(sdk::ValueAt(begin, static_cast<int64_t>(d)));
    if (from[d] < 0 || own[d] > whole[d] || from[d] > whole[d] - own[d])
      sdk::Fail(TENON_UNIMPLEMENTED, "a slice that its kernel refuses");
  }
  return PartOfBox(whole, from, {own.begin(), own.end()}, bytes);
}

Part PartOfStridedSlice(const tenon_node_services& services, const tenon_node* node,
                        const std::vector<const tenon_tensor_view*>& inputs, int64_t count, int64_t bytes) {
  const sdk::Dims whole = sdk::DimsOf(*inputs[0]);
  tenon_create_args args{};
  args.struct_size = sizeof args;
  args.node_services = &services;
  args.node = node;
  sdk::CreateContext context(args);
  const sdk::StridedSliceMasks masks(context);
  sdk::Check(context.Finish());
  std::vector<int64_t> from, size;
  masks.ForEachDim(whole, *inputs[1], *inputs[2], *inputs[3], [&](int64_t first, int64_t step, int64_t own) {
    if (step != 1) sdk::Fail(TENON_UNIMPLEMENTED, "a slice that leaves elements out");
    from.push_back(first);
    size.push_back(own);
  });
  if (sdk::Count(size) != count) sdk::Fail(TENON_UNIMPLEMENTED, "a slice that its kernel refuses");
  return PartOfBox(whole, from, size, bytes);
}

// Whether axis and batch_dims are 0.
bool IsOfFirstDim(std::string_view op, const tenon_node_services& services, const tenon_node* node,
                  const std::vector<const tenon_tensor_view*>& inputs) {
  tenon_attr_value value{};
  if (tenon_status* missing = services.attr(node, TENON_SPAN("batch_dims"), &value)) {
    tenon_plugin_host->status_release(missing);
  } else if (value.kind != TENON_ATTR_INT || value.count != 1 || *static_cast<const int64_t*>(value.data) != 0) {
    return false;
  }
  return op != "GatherV2" || (inputs[2]->dl.data != nullptr && sdk::Count(*inputs[2]) == 1 &&
                              sdk::IndexAt(sdk::Data<const void>(*inputs[2]), inputs[2]->dtype, 0) == 0);
}

Part PartOfGather(const tenon_node_services& services, const tenon_node* node,
                  const std::vector<const tenon_tensor_view*>& inputs, sdk::Dims own, uint32_t dtype) {
  const std::string_view op = sdk::ToText(services.op(node));
  const tenon_tensor_view& indices = *inputs[1];
  if (!IsOfFirstDim(op, services, node, inputs))
    sdk::Fail(TENON_UNIMPLEMENTED, "a gather of other dims than the first");
  if (indices.dtype != TENON_DT_INT32 && indices.dtype != TENON_DT_INT64)
    sdk::Fail(TENON_UNIMPLEMENTED, "indices of ", sdk::TypeName(indices.dtype));
  const sdk::Dims by = sdk::DimsOf(indices);
  if (by.size() > own.size() || !std::equal(by.begin(), by.end(), own.begin()))
    sdk::Fail(TENON_UNIMPLEMENTED, "a gather of another shape than its indices'");
  Gather gather;
  gather.is_variable = op == "ResourceGather";
  gather.dtype = dtype;
  gather.dims.assign(own.begin(), own.end());
  gather.rows = sdk::Count(by);
  gather.name = sdk::Concat("node '", sdk::ToText(services.name(node)), "' (", op, ")");
  Part part;
  part.size = static_cast<int64_t>(sdk::ElementSize(dtype));
  part.row = sdk::Count(own.subspan(by.size()));
  gather.row_bytes = part.row * part.size;
  part.gather = std::move(gather);
  return part;
}

}  // namespace

EdgeOp EdgeOpOf(std::string_view op) {
  static constexpr std::pair<std::string_view, EdgeOp> kAll[] = {{"Split", EdgeOp::kSplit},
                                                                 {"SplitV", EdgeOp::kSplitV},
                                                                 {"Unpack", EdgeOp::kUnpack},
                                                                 {"Slice", EdgeOp::kSlice},
                                                                 {"StridedSlice", EdgeOp::kStridedSlice},
                                                                 {"Gather", EdgeOp::kGather},
                                                                 {"GatherV2", EdgeOp::kGather},
                                                                 {"ResourceGather", EdgeOp::kGather},
                                                                 {"ConcatV2", EdgeOp::kConcat}};
  const auto* const found =
      std::find_if(std::begin(kAll), std::end(kAll), [op](const auto& each) { return each.first == op; });
  return found == std::end(kAll) ? EdgeOp::kNone : found->second;
}

bool IsArgument(EdgeOp op, std::string_view name, int32_t i) {
  switch (op) {
    case EdgeOp::kSplit: return i == 0;
    case EdgeOp::kSplitV: case EdgeOp::kSlice: case EdgeOp::kStridedSlice: return i >= 1;
    case EdgeOp::kGather: return name == "GatherV2" && i == 2;
    default: return false;
  }
}

int64_t RowOfConcatenated(sdk::Dims own, sdk::Dims whole) {
  size_t axis = 0;
  while (axis < own.size() && axis < whole.size() && own[axis] == whole[axis]) ++axis;
  return own.size() != whole.size() || axis == own.size() ? -1 : KnownCount(own.subspan(axis));
}

Part PartOf(EdgeOp op, const tenon_node_services& services, const tenon_node* node, int32_t index,
            const std::vector<const tenon_tensor_view*>& inputs, const std::vector<sdk::Dims>& outputs) {
  const sdk::Dims own = outputs[static_cast<size_t>(index)];
  const uint32_t dtype = services.output_dtype(node, index);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (IsArgument(op, sdk::ToText(services.op(node)), static_cast<int32_t>(i)) && inputs[i]->dl.data == nullptr)
      sdk::Fail(TENON_UNIMPLEMENTED, "a part whose place is not known");
  if (op == EdgeOp::kGather) return PartOfGather(services, node, inputs, own, dtype);
  const sdk::Dims whole = sdk::DimsOf(*inputs[static_cast<size_t>(ValueOf(op))]);
  const auto bytes = static_cast<int64_t>(sdk::ElementSize(dtype));
  if (whole.empty()) sdk::Fail(TENON_UNIMPLEMENTED, "a part of one element");
  switch (op) {
    case EdgeOp::kSplit: case EdgeOp::kSplitV: return PartOfSplit(index, whole, outputs, bytes);
    case EdgeOp::kSlice: return PartOfSlice(whole, own, *inputs[1], bytes);
    case EdgeOp::kStridedSlice: return PartOfStridedSlice(services, node, inputs, sdk::Count(own), bytes);
    default: break;
  }
  sdk::NodeContext context(&services, node);
  const int64_t axis = context.Int("axis");
  sdk::Check(context.Finish());
  return PartOfUnpack(axis, index, whole, bytes);
}

void Gather::ListRows(const sdk::RunContext& c) const {
  try {
    tenon_tensor_view params{};
    if (is_variable) {
      sdk::Check(c.services().variable_read(c.frame(), c.resource(table), &params));
      if (params.dtype != dtype)
        sdk::Fail(TENON_INVALID_ARGUMENT, "the variable is ", sdk::TypeName(params.dtype), "; dtype is ",
                  sdk::TypeName(dtype));
    } else {
      params = c.input_view(table);
    }
    const tenon_tensor_view& by = c.input_view(indices);
    const sdk::GatherShape shape = sdk::GatherShapeOf(params, by, 0, 0);
    if (shape.inner != row_bytes || shape.indices != rows)
      sdk::Fail(TENON_INVALID_ARGUMENT, "rows of params ", sdk::DimsOf(params), " by indices ", sdk::DimsOf(by),
                " do not give the output's shape ", sdk::Dims(dims));
    const auto list = [&]<class Index>(const Index* from) {
      auto* const to = c.workspace<const char*>(workspace);
      const char* const first = sdk::Data<const char>(params);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t row = from[i];
        sdk::CheckRow(row, i, shape.rows);
        to[i] = first + row * row_bytes;
      }
    };
    by.dtype == TENON_DT_INT32 ? list(sdk::Data<const int32_t>(by)) : list(sdk::Data<const int64_t>(by));
  } catch (sdk::KernelError& error) {
    FailAs(name, error);
  }
}

void CopyPart(const sdk::RunContext& c, const Part& part, char* base, int64_t count, char* to) {
  const int64_t bytes = part.row * part.size;
  c.ParallelFor(count / part.row, static_cast<double>(bytes) * 0.05 + 2, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(to + r * bytes, part.At(base, r * part.row), static_cast<size_t>(bytes));
  });
}

std::vector<int64_t> DimsOfRow(const std::vector<int64_t>& shape, int64_t row) {
  size_t first = shape.size();
  for (int64_t count = 1; first > 0 && count * shape[first - 1] <= row && count < row;) count *= shape[--first];
  return {shape.begin() + static_cast<int64_t>(first), shape.end()};
}

}  // namespace tenon::cpu_codegen
