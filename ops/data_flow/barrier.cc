// SPDX-License-Identifier: Apache-2.0
#include "barrier.h"

#include <algorithm>

#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

static QueueOptions ReadyOptions(const BarrierOptions& options) {
  QueueOptions ready = {.op = "Barrier",
                        .name = options.name,
                        .types = {TENON_DT_INT64, TENON_DT_STRING},
                        .shapes = {Shape::Scalar(), Shape::Scalar()},
                        .priority = true};
  ready.types.insert(ready.types.end(), options.types.begin(), options.types.end());
  ready.shapes.insert(ready.shapes.end(), options.shapes.begin(), options.shapes.end());
  return ready;
}

Barrier::Barrier(const BarrierOptions& options)
    : options_(options), ready_(std::make_shared<Queue>(ReadyOptions(options))) {}

void Barrier::CheckSame(const BarrierOptions& other) const {
  if (options_.types != other.types)
    Fail(TENON_INVALID_ARGUMENT, "the shared ", Describe(),
         " exists with other component_types; give this one another shared_name");
  if (options_.shapes != other.shapes)
    Fail(TENON_INVALID_ARGUMENT, "the shared ", Describe(),
         " exists with other shapes; give this one another shared_name");
}

int64_t Barrier::IncompleteSize() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(incomplete_.size());
}

void Barrier::Insert(const RunContext& c, int64_t component, const tenon_tensor_view& keys,
                     const tenon_tensor_view& values) {
  const Dims dims = DimsOf(values);
  if (component < 0 || component >= static_cast<int64_t>(types().size()))
    Fail(TENON_INVALID_ARGUMENT, "component_index is ", component, "; the ", Describe(), " has ", types().size(),
         " components");
  const auto place = static_cast<size_t>(component);
  if (values.dtype != types()[place])
    Fail(TENON_INVALID_ARGUMENT, "component ", component, " of the ", Describe(), " is ", TypeName(types()[place]),
         ", not ", TypeName(values.dtype));
  if (dims.empty() || dims[0] != Count(keys))
    Fail(TENON_INVALID_ARGUMENT, "values has shape ", ShapeOf(dims), "; there are ", Count(keys),
         " keys, each with a row");
  if (const Shape row = ShapeOf(dims.subspan(1)); !Fits(row, options_.shapes[place]))
    Fail(TENON_INVALID_ARGUMENT, "a row of values has shape ", row, "; component ", component, " of the ", Describe(),
         " has ", options_.shapes[place]);
  std::vector<Component> rows;
  for (int64_t i = 0; i < Count(keys); ++i) rows.emplace_back(c, values, i);

  std::optional<Queue::Ended> put, closed;  // those that wait are told without the mutex
  const std::lock_guard lock(mutex_);
  CheckOpen(rows.size());
  std::vector<Element> whole;
  bool begun = false;
  const auto hand_over = [&] {
    if (!whole.empty()) put.emplace(ready_->PutNow(std::move(whole)));
    if (closed_ && incomplete_.empty()) closed.emplace(ready_->ClosedNow());
  };
  try {
    for (size_t i = 0; i < rows.size(); ++i)
      InsertOne(c, component, StringAt(keys, static_cast<int64_t>(i)), std::move(rows[i]), &whole, &begun);
  } catch (...) {
    hand_over();
    throw;
  }
  if (begun && next_index_ < INT64_MAX) ++next_index_;
  hand_over();
}

void Barrier::CheckOpen(size_t inserts) const {
  if (cancelled_ || (closed_ && inserts != 0 && incomplete_.empty()))
    Fail(TENON_CANCELLED, "the ", Describe(), " is closed, and no element in it lacks anything");
}

Barrier::Begun& Barrier::Begin(const RunContext& c, std::string_view key) {
  Begun begun;
  begun.charge = Charge(c, sizeof(Begun) + key.size() + types().size() * sizeof(std::optional<Component>));
  KeptTensor index = NewTensor(c, TENON_DT_INT64, {});
  *Data<int64_t>(index.view()) = next_index_;
  begun.leading.emplace_back(std::move(index));
  begun.leading.emplace_back(NewStrings(c, {}, std::vector<std::string_view>{key}));
  begun.components.resize(types().size());
  return incomplete_.emplace(key, std::move(begun)).first->second;
}

void Barrier::InsertOne(const RunContext& c, int64_t component, std::string_view key, Component value,
                        std::vector<Element>* whole, bool* begun) {
  auto found = incomplete_.find(key);
  if (found == incomplete_.end()) {
    if (closed_) Fail(TENON_CANCELLED, "the ", Describe(), " is closed, and '", key, "' is a new key");
    Begin(c, key);
    found = incomplete_.find(key);
    *begun = true;
  }
  Begun& element = found->second;
  std::optional<Component>& place = element.components[static_cast<size_t>(component)];
  if (place.has_value())
    Fail(TENON_INVALID_ARGUMENT, "component ", component, " of key '", key, "' is in the ", Describe(), " already");
  const auto given = std::count_if(element.components.begin(), element.components.end(),
                                   [](const auto& each) { return each.has_value(); });
  if (static_cast<size_t>(given) + 1 == element.components.size()) {  // first its place, so that nothing is lost
    whole->reserve(whole->size() + 1);
    element.leading.reserve(element.leading.size() + element.components.size());
  }
  place.emplace(std::move(value));
  if (static_cast<size_t>(given) + 1 != element.components.size()) return;
  for (auto& each : element.components) element.leading.push_back(std::move(*each));
  whole->push_back(std::move(element.leading));
  incomplete_.erase(found);
}

void Barrier::Take(RunContext c, Done done, int64_t count, bool fewer) {
  int64_t wanted = count;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      // What is missing may still come; who takes less does not wait for it.
      const int64_t there = ReadySize();
      const int64_t most = fewer ? there : there + static_cast<int64_t>(incomplete_.size());
      if (fewer) wanted = std::min(count, there);
      if (most < std::max<int64_t>(wanted, 1))
        Fail(TENON_OUT_OF_RANGE, "the ", Describe(), " is closed and has ", most, " elements; ", count, " are wanted");
    }
  }
  ready_->DequeueRows(c, done, wanted, fewer);
}

void Barrier::Close(bool cancel) {
  std::optional<Queue::Ended> closed;
  std::map<std::string, Begun, std::less<>> gone;
  const std::lock_guard lock(mutex_);
  if (closed_ && (cancelled_ || !cancel)) Fail(TENON_CANCELLED, "the ", Describe(), " is closed already");
  closed_ = true;
  if (cancel) {
    cancelled_ = true;
    gone.swap(incomplete_);
  }
  if (incomplete_.empty()) closed.emplace(ready_->ClosedNow());
}

}  // namespace tenon::ops
