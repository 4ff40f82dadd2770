// SPDX-License-Identifier: Apache-2.0
#include "base/dataset.h"

#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kDatasetType = TENON_SPAN("tenon.Dataset/1");

// What a variant holds.
struct Holder {
  DatasetPtr dataset;
  Charge charge;  // for this and the variant
};

// A variant that holds the dataset, with one reference.
tenon_variant* Hold(const tenon_work_services& services, const Account& account, DatasetPtr dataset) {
  if (!TENON_CALLABLE(&services, variant_hold))
    Fail(TENON_UNIMPLEMENTED, "this host has no variants that hold objects, which datasets need");
  constexpr uint64_t kVariantBytes = 384;
  dataset->ChargeTo(account);
  auto held = std::make_unique<Holder>(Holder{std::move(dataset), {}});
  held->charge = Charge(account, kVariantBytes + held->dataset->who().size());
  tenon_variant* made = nullptr;
  Check(services.variant_hold(
      kDatasetType, ToSpan(held->dataset->who()), held.get(), [](void* object) { delete static_cast<Holder*>(object); },
      &made));
  (void)held.release();
  return made;
}

constexpr uint64_t kIteratorBytes = 512;  // of one, with what it has beside elements

Charge ChargeFor(const Account& account, const Dataset& dataset) {
  return {account, static_cast<uint64_t>(dataset.iterators()) * kIteratorBytes};
}

int DepthWithin(int outer, const Dataset& dataset) {
  const int depth = outer + dataset.depth();
  if (depth > Dataset::kMostDepth)
    Fail(TENON_RESOURCE_EXHAUSTED, dataset.who(),
         ": passes over datasets that functions give lie in one another deeper than ", Dataset::kMostDepth,
         " datasets");
  return depth;
}

}  // namespace

Pass::Pass(const Work& work, const Dataset& dataset, bool resting, const tenon_frame_services* frames)
    : work_(work),
      account_(work),
      frames_(frames),
      outermost_(*this),
      depth_(dataset.depth()),
      charge_(ChargeFor(account_, dataset)),
      resting_(resting) {}

Pass::Pass(const Pass& outer, const Dataset& dataset)
    : work_(outer.work_),
      account_(outer.account_),
      frames_(outer.frames_),
      outermost_(outer.outermost_),
      depth_(DepthWithin(outer.depth_, dataset)),
      charge_(ChargeFor(account_, dataset)),
      resting_(false) {}

Dataset::Node::Node(CreateContext& c, bool strings, std::string_view types_attr)
    : who(Concat(c.op(), " '", c.name(), "'")) {
  if (strings) {
    types = {TENON_DT_STRING};
    shapes = {Shape::Scalar()};
    return;
  }
  types = c.Types(types_attr);
  shapes = c.Shapes("output_shapes");
  if (c.ok() && types.size() != shapes.size())
    c.Invalid(who, " has ", types.size(), " output_types and ", shapes.size(), " output_shapes");
}

Dataset::Dataset(const Node& node, const std::vector<DatasetPtr>& inputs, bool waits)
    : who_(node.who), types_(node.types), shapes_(node.shapes), waits_(waits) {
  for (const DatasetPtr& input : inputs) {
    depth_ = std::max(depth_, input->depth_ + 1);
    waits_ = waits_ || input->waits_;
    iterators_ += input->iterators_;
    if (iterators_ > kMostIterators)
      Fail(TENON_RESOURCE_EXHAUSTED, who_, ": a pass over it would take more than ", kMostIterators, " iterators");
  }
  if (depth_ > kMostDepth)
    Fail(TENON_RESOURCE_EXHAUSTED, who_, ": datasets lie in one another deeper than ", kMostDepth);
}

void Dataset::ChargeTo(const Account& account) const {
  if (charged_) return;
  constexpr uint64_t kDatasetBytes = 512;  // with a function or two
  uint64_t bytes = kDatasetBytes + who_.size() + types_.size() * sizeof(uint32_t);
  for (const Shape& shape : shapes_)
    bytes += sizeof shape + static_cast<uint64_t>(std::max<int64_t>(shape.rank(), 0)) * sizeof(int64_t);
  charge_ = Charge(account, bytes);
  charged_ = true;
}

Element Dataset::At(const Pass&, int64_t) const {
  Fail(TENON_FAILED_PRECONDITION, who_, " does not support random access.");
}

DatasetPtr DatasetIn(const tenon_work_services& services, const tenon_tensor_view& view, std::string_view what) {
  if (view.dtype != TENON_DT_VARIANT || view.dl.ndim != 0)
    Fail(TENON_INVALID_ARGUMENT, what, " must be one dataset, a variant of rank 0");
  if (!TENON_CALLABLE(&services, variant_held))
    Fail(TENON_UNIMPLEMENTED, "this host has no variants that hold objects, which datasets need");
  const auto* held = static_cast<const Holder*>(services.variant_held(VariantOf(view), kDatasetType));
  if (held == nullptr) Fail(TENON_INVALID_ARGUMENT, what, " is a variant, but no dataset");
  return held->dataset;
}

DatasetPtr DatasetOf(const RunContext& c, int32_t input) {
  return DatasetIn(*Work::ServicesOf(c.services()), c.input_view(input), Concat("input ", input));
}

std::vector<DatasetPtr> DatasetsOf(const RunContext& c, int32_t first, int32_t count) {
  std::vector<DatasetPtr> all;
  for (int32_t i = 0; i < count; ++i) all.push_back(DatasetOf(c, first + i));
  return all;
}

void SetDataset(const RunContext& c, int32_t index, DatasetPtr dataset) {
  SetVariant(c, index, Hold(*Work::ServicesOf(c.services()), Account(c), std::move(dataset)));
}

KeptTensor NewDataset(const Work& work, DatasetPtr dataset) {
  KeptTensor tensor = work.NewTensor(TENON_DT_VARIANT, {});
  *Data<tenon_variant*>(tensor.view()) = Hold(work.services(), Account(tensor), std::move(dataset));
  return tensor;
}

}  // namespace tenon::ops
