// SPDX-License-Identifier: Apache-2.0
#include "tensor_array.h"

#include <algorithm>
#include <cstring>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

TensorArray::TensorArray(const RunContext& c, TensorArrayOptions options, int64_t size)
    : own_charge_(c, sizeof(TensorArray) + options.name.size() +
                         static_cast<uint64_t>(std::max(options.element_shape.rank(), 0)) * sizeof(int64_t)),
      options_(std::move(options)) {
  if (size < 0) Refuse(sdk::Concat("a size of ", size));
  if (options_.dtype != TENON_DT_STRING && ElementSize(options_.dtype) == 0)
    Refuse(sdk::Concat("elements of ", TypeName(options_.dtype)));
  Grow(c, size);
}

void TensorArray::Grow(const RunContext& c, int64_t size) {
  if (size > charged_) {
    const int64_t most = std::max(size, 2 * charged_), bytes[] = {most, static_cast<int64_t>(sizeof(Slot))};
    charge_.emplace(NewTensor(c, TENON_DT_UINT8, bytes));
    charged_ = most;
  }
  slots_.resize(static_cast<size_t>(size));
}

void TensorArray::Refuse(const std::string& why) const {
  Fail(TENON_INVALID_ARGUMENT, "tensor array '", options_.name, "': ", why);
}

void TensorArray::CheckType(uint32_t dtype) const {
  if (dtype != options_.dtype) Refuse(sdk::Concat("it holds ", TypeName(options_.dtype), ", not ", TypeName(dtype)));
}

TensorArray::Slot& TensorArray::At(int64_t index) {
  if (closed_) Refuse("it is closed");
  if (index < 0 || index >= static_cast<int64_t>(slots_.size()))
    Refuse(sdk::Concat("there is no element ", index, " of ", slots_.size()));
  return slots_[static_cast<size_t>(index)];
}

void TensorArray::Write(const RunContext& c, int64_t index, Component value) {
  const std::lock_guard lock(mutex_);
  const Shape shape = ShapeOf(value.view());
  if (options_.dynamic_size && index >= static_cast<int64_t>(slots_.size()) && !closed_) Grow(c, index + 1);
  Slot& slot = At(index);
  if (!Fits(shape, options_.element_shape))
    Refuse(sdk::Concat("element ", index, " has shape ", shape, "; its elements have ", options_.element_shape));
  if (slot.read) Refuse(sdk::Concat("element ", index, " is written after it was read"));
  if (slot.written && !options_.sums) Refuse(sdk::Concat("element ", index, " is written twice"));
  if (slot.written) {
    const tenon_tensor_view before = slot.value->view();
    if (ShapeOf(before) != shape)
      Refuse(sdk::Concat("gradients of element ", index, " have shapes ", ShapeOf(before), " and ", shape));
    slot.value = std::make_shared<const Component>(Component::Sum(c, before, value.view()));
    return;
  }
  if (options_.identical_element_shapes) options_.element_shape = shape;
  slot.value = std::make_shared<const Component>(std::move(value));
  slot.written = true;
}

std::shared_ptr<const Component> TensorArray::Take(const RunContext& c, int64_t index) {
  Slot& slot = At(index);
  if (slot.read && slot.value == nullptr)
    Refuse(sdk::Concat("element ", index, " is read twice; give it clear_after_read = false"));
  if (!slot.written) {
    if (!options_.element_shape.fully_known())
      Refuse(sdk::Concat("element ", index,
                         " was not written, and without the full element_shape there are no zeros for it"));
    slot.value = std::make_shared<const Component>(Component::Zeros(c, options_.dtype, options_.element_shape.dims()));
    slot.written = true;
  }
  slot.read = true;
  return options_.clear_after_read ? std::exchange(slot.value, nullptr) : slot.value;
}

void TensorArray::Read(const RunContext& c, int32_t output, int64_t index) {
  std::shared_ptr<const Component> value;
  {
    const std::lock_guard lock(mutex_);
    value = Take(c, index);
  }
  value->Give(c, output);
}

std::vector<std::shared_ptr<const Component>> TensorArray::TakeAll(const RunContext& c,
                                                                   const std::vector<int64_t>& indices) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Component>> elements;
  for (int64_t index : indices) elements.push_back(Take(c, index));
  return elements;
}

static std::vector<tenon_tensor_view> ViewsOf(const std::vector<std::shared_ptr<const Component>>& elements) {
  std::vector<tenon_tensor_view> views;
  for (const auto& element : elements) views.push_back(element->view());
  return views;
}

void TensorArray::Gather(const RunContext& c, const std::vector<int64_t>& indices) {
  const auto elements = TakeAll(c, indices);
  if (elements.empty() && !options_.element_shape.fully_known())
    Refuse("no elements are gathered, and their element_shape is not fully known");
  const Shape shape = elements.empty() ? options_.element_shape : ShapeOf(elements[0]->view());
  for (size_t i = 0; i < elements.size(); ++i)
    if (const Shape other = ShapeOf(elements[i]->view()); other != shape)
      Refuse(sdk::Concat("elements ", indices[0], " and ", indices[i], " have shapes ", shape, " and ", other,
                         "; gathered ones have one shape"));
  const std::vector<tenon_tensor_view> views = ViewsOf(elements);
  GiveJoined(c, 0, options_.dtype, views, Join({static_cast<int64_t>(views.size())}, shape).dims());
}

void TensorArray::Concat(const RunContext& c) {
  std::vector<int64_t> all(static_cast<size_t>(size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const auto elements = TakeAll(c, all);
  const Shape rest_of = options_.element_shape.Slice(1);
  if (elements.empty() && !rest_of.fully_known())
    Refuse("it is empty, and the element_shape of what would be concatenated is not fully known");
  const std::vector<tenon_tensor_view> views = ViewsOf(elements);
  const Shape rest = elements.empty() ? rest_of : ShapeOf(views[0]).Slice(1);
  std::vector<int64_t> lengths;
  int64_t rows = 0;
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].dl.ndim == 0) Refuse(sdk::Concat("element ", i, " is a scalar, which has no rows to concatenate"));
    if (const Shape other = ShapeOf(views[i]).Slice(1); other != rest)
      Refuse(sdk::Concat("rows of elements 0 and ", i, " have shapes ", rest, " and ", other,
                         "; concatenated ones have one shape"));
    lengths.push_back(views[i].dl.shape[0]);
    rows += views[i].dl.shape[0];
  }
  GiveJoined(c, 0, options_.dtype, views, Join({rows}, rest).dims());
  c.AllocOutput(1, std::vector<int64_t>{static_cast<int64_t>(lengths.size())});
  std::copy(lengths.begin(), lengths.end(), c.output<int64_t>(1));
}

int64_t TensorArray::size() const {
  const std::lock_guard lock(mutex_);
  if (closed_) Refuse("it is closed");
  return static_cast<int64_t>(slots_.size());
}

void TensorArray::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  slots_.clear();
  charge_.reset();
  charged_ = 0;
}

tenon_resource* TensorArray::Gradient(const RunContext& c, std::string_view source, Make make, void* argument) {
  const std::lock_guard lock(mutex_);
  if (closed_) Refuse("it is closed");
  if (const auto at = gradients_.find(source); at != gradients_.end()) return at->second;
  TensorArrayOptions options = options_;
  options.name = sdk::Concat(options_.name, " (", source, ")");
  options.sums = true;
  options.dynamic_size = false;
  options_.dynamic_size = false;  // what grows now would have no gradient
  tenon_resource* handle = nullptr;
  make(argument, std::make_unique<TensorArray>(c, std::move(options), static_cast<int64_t>(slots_.size())), &handle);
  return gradients_.emplace(std::string(source), handle).first->second;
}

}  // namespace tenon::ops
