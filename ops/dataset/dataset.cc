// SPDX-License-Identifier: Apache-2.0
#include "dataset.h"

#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kDatasetType = TENON_SPAN("tenon.Dataset/1");

// A variant that holds the dataset, with one reference.
tenon_variant* Hold(const tenon_work_services& services, DatasetPtr dataset) {
  if (!TENON_CALLABLE(&services, variant_hold)) Fail(TENON_UNIMPLEMENTED, "this host has no variants that hold objects, which datasets need");
  auto held = std::make_unique<DatasetPtr>(std::move(dataset));
  tenon_variant* made = nullptr;
  Check(services.variant_hold(kDatasetType, ToSpan((*held)->who()), held.get(), [](void* object) { delete static_cast<DatasetPtr*>(object); }, &made));
  (void)held.release();
  return made;
}

}  // namespace

Dataset::Node::Node(CreateContext& c, bool strings, std::string_view types_attr) : who(Concat(c.op(), " '", c.name(), "'")) {
  if (strings) {
    types = {TENON_DT_STRING};
    shapes = {Shape::Scalar()};
    return;
  }
  types = c.Types(types_attr);
  shapes = c.Shapes("output_shapes");
  if (c.ok() && types.size() != shapes.size()) c.Invalid(who, " has ", types.size(), " output_types and ", shapes.size(), " output_shapes");
}

Dataset::Dataset(const Node& node, const std::vector<DatasetPtr>& inputs, bool waits) : who_(node.who), types_(node.types), shapes_(node.shapes), waits_(waits) {
  for (const DatasetPtr& input : inputs) {
    depth_ = std::max(depth_, input->depth_ + 1);
    waits_ = waits_ || input->waits_;
    iterators_ += input->iterators_;
    if (iterators_ > kMostIterators) Fail(TENON_RESOURCE_EXHAUSTED, who_, ": a pass over it would take more than ", kMostIterators, " iterators");
  }
  if (depth_ > kMostDepth) Fail(TENON_RESOURCE_EXHAUSTED, who_, ": datasets lie in one another deeper than ", kMostDepth);
}

Element Dataset::At(const Pass&, int64_t) const { Fail(TENON_FAILED_PRECONDITION, who_, " does not support random access."); }

DatasetPtr DatasetIn(const tenon_work_services& services, const tenon_tensor_view& view, std::string_view what) {
  if (view.dtype != TENON_DT_VARIANT || view.dl.ndim != 0) Fail(TENON_INVALID_ARGUMENT, what, " must be one dataset, a variant of rank 0");
  if (!TENON_CALLABLE(&services, variant_held)) Fail(TENON_UNIMPLEMENTED, "this host has no variants that hold objects, which datasets need");
  const auto* held = static_cast<const DatasetPtr*>(services.variant_held(VariantOf(view), kDatasetType));
  if (held == nullptr) Fail(TENON_INVALID_ARGUMENT, what, " is a variant, but no dataset");
  return *held;
}

DatasetPtr DatasetOf(const RunContext& c, int32_t input) {
  return DatasetIn(*Work::ServicesOf(c.services()), c.input_view(input), Concat("input ", input));
}

std::vector<DatasetPtr> DatasetsOf(const RunContext& c, int32_t first, int32_t count) {
  std::vector<DatasetPtr> all;
  for (int32_t i = 0; i < count; ++i) all.push_back(DatasetOf(c, first + i));
  return all;
}

void SetDataset(const RunContext& c, int32_t index, DatasetPtr dataset) { SetVariant(c, index, Hold(*Work::ServicesOf(c.services()), std::move(dataset))); }

KeptTensor NewDataset(const Work& work, DatasetPtr dataset) {
  KeptTensor tensor = work.NewTensor(TENON_DT_VARIANT, {});
  *Data<tenon_variant*>(tensor.view()) = Hold(work.services(), std::move(dataset));
  return tensor;
}

}  // namespace tenon::ops
