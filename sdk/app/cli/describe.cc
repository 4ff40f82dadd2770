// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/describe.h"

namespace tenon::cli {

std::string DTypeText(host::DType dtype) {
  switch (dtype) {
    case host::DType::kInvalid:
      return "?";
    case host::DType::kHalf:
      return "float16";
    case host::DType::kFloat:
      return "float32";
    case host::DType::kDouble:
      return "float64";
    default:
      return host::DTypeName(dtype);
  }
}

std::string TensorText(host::DType dtype, const host::Shape& shape) {
  return DTypeText(dtype) + (shape.has_rank() ? shape.ToString() : " of any shape");
}

Json ShapeJson(const host::Shape& shape) { return shape.has_rank() ? Json(shape.dims()) : Json(); }

std::string InfosText(const std::vector<model::TensorInfo>& infos) {
  std::string text;
  for (const model::TensorInfo& info : infos)
    text += (text.empty() ? "" : ", ") + info.key + " " + TensorText(info.dtype, info.shape) +
            (info.default_value.empty() ? "" : " (has a default)");
  return text.empty() ? "none" : text;
}

std::string SignaturesText(const std::vector<model::Signature>& signatures) {
  std::string text;
  for (const model::Signature& each : signatures)
    text += (text.empty() ? "" : "; ") + each.name + " (" + InfosText(each.inputs) + ") -> (" +
            InfosText(each.outputs) + ")";
  return text;
}

}  // namespace tenon::cli
