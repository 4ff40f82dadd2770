// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/json.h"

#include <cstdio>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/print_tensor.h"

namespace tenon::cli {
namespace {

using host::DType;
using host::Tensor;

// The text of an element is what JSON wants too, but for strings, truth and what is no number.
Json ElementJson(const Tensor& tensor, uint64_t index) {
  if (tensor.dtype() == DType::kString) return std::string(tensor.string(index));
  if (tensor.dtype() == DType::kBool) return tensor.bytes()[index] != 0;
  const std::string text = FormatElement(tensor, index);
  Json number = Json::parse(text, nullptr, false);
  return number.is_number() ? number : Json(text);
}

Json Nested(const Tensor& tensor, const std::vector<int64_t>& dims, size_t axis, uint64_t* at) {
  if (axis == dims.size()) return ElementJson(tensor, (*at)++);
  Json array = Json::array();
  for (int64_t i = 0; i < dims[axis]; ++i) array.push_back(Nested(tensor, dims, axis + 1, at));
  return array;
}

}  // namespace

Json TensorJson(const Tensor& tensor) {
  Json json;
  json["dtype"] = DTypeText(tensor.dtype());
  json["shape"] = tensor.shape().dims();
  uint64_t at = 0;
  json["value"] = Nested(tensor, tensor.shape().dims(), 0, &at);
  return json;
}

void PrintJson(const Json& json) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

}  // namespace tenon::cli
