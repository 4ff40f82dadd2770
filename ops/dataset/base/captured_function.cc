// SPDX-License-Identifier: Apache-2.0
#include "base/captured_function.h"

#include <array>
#include <span>

#include "base/archive.h"

namespace tenon::ops {
using namespace sdk;

static Element Others(const RunContext& c, int32_t first, int32_t count) {
  Element others;
  for (int32_t i = 0; i < count; ++i) others.push_back(KeptTensor::OfInput(c, first + i));
  return others;
}

Captured::Captured(const Function& function, const std::string& who, const RunContext& c, int32_t first, int32_t count)
    : function_(function), who_(who), others_(Others(c, first, count)) {}

Element Captured::CallInto(const Pass& pass, std::span<const tenon_tensor_view* const> places, const Element& first,
                           const Element& second) const {
  // Few arguments, as functions mostly have, want no memory.
  constexpr size_t kFewArguments = 6;
  std::array<tenon_tensor_view, kFewArguments> few_views;
  std::array<const tenon_tensor_view*, kFewArguments> few_arguments;
  std::vector<tenon_tensor_view> many_views;
  std::vector<const tenon_tensor_view*> many_arguments;
  tenon_tensor_view* view = few_views.data();
  const tenon_tensor_view** argument = few_arguments.data();
  const size_t count = first.size() + second.size() + others_.size();
  if (count > kFewArguments) {
    many_views.resize(count);
    many_arguments.resize(count);
    view = many_views.data();
    argument = many_arguments.data();
  }
  const std::span<const tenon_tensor_view* const> arguments(argument, count);
  for (const Element* part : {&first, &second, &others_}) {
    for (const KeptTensor& tensor : *part) {
      *view = tensor.view();
      *argument++ = view++;
    }
  }
  try {
    return places.empty() ? function_.Call(pass.work(), arguments) : function_.CallInto(pass.work(), arguments, places);
  } catch (KernelError& error) {
    const Outcome why = TakeStatus(error.release());
    Fail(why.code, who_, ": ", why.message);
  }
}

template <class T>
static T OneOf(const std::string& who, const Element& results, uint32_t dtype) {
  if (results.size() != 1 || results[0].view().dtype != dtype || results[0].view().dl.ndim != 0)
    Fail(TENON_INVALID_ARGUMENT, who, ": its function must give one ", TypeName(dtype), ", a scalar");
  return *Data<const T>(results[0].view());
}

bool Captured::Ask(const Pass& pass, const Element& element) const {
  return OneOf<bool>(who_, Call(pass, element), TENON_DT_BOOL);
}

int64_t Captured::Count(const Pass& pass, const Element& element) const {
  return OneOf<int64_t>(who_, Call(pass, element), TENON_DT_INT64);
}

DatasetPtr Captured::CallForDataset(const Pass& pass, const Element& element,
                                    const std::vector<uint32_t>& types) const {
  const Element results = Call(pass, element);
  if (results.size() != 1)
    Fail(TENON_INVALID_ARGUMENT, who_, ": its function must give one dataset, it gave ", results.size(), " values");
  DatasetPtr dataset = DatasetIn(pass.work().services(), results[0].view(), Concat(who_, ": what its function gives"));
  if (dataset->types() != types)
    Fail(TENON_INVALID_ARGUMENT, who_, ": its function gave ", dataset->who(),
         ", whose components have other types than output_types");
  return dataset;
}

void Opened::State(Archive& archive) const {
  const Archive::Within within(archive, *pass_);
  iterator_->State(archive);
}

}  // namespace tenon::ops
