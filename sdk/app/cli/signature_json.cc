// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/signature_json.h"

#include <charconv>
#include <cmath>

#include "sdk/app/cli/describe.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

// NumPy's name; what is no type stays as it is.
std::string TypeText(const std::string& name) {
  const host::DType dtype = host::DTypeFromName(name);
  return dtype == host::DType::kInvalid ? name : DTypeText(dtype);
}

Status Unreadable(std::string_view text, std::string_view what) {
  return Status(Code::kInvalidArgument, "the default '" + std::string(text) + "' is no " + std::string(what));
}

Result<Json> ValueOf(const std::string& type, std::string_view text);

Result<Json> ListOf(const std::string& type, std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return Unreadable(text, "list");
  Json list = Json::array();
  for (const std::string& piece : SplitOutside(text.substr(1, text.size() - 2), ',')) {
    if (Trim(piece).empty()) continue;
    TENON_TRY_ASSIGN(Json element, ValueOf(type, Trim(piece)));
    list.push_back(std::move(element));
  }
  return list;
}

template <typename T>
Result<Json> NumberOf(std::string_view text, std::string_view what) {
  T value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return Unreadable(text, what);
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return Json(std::string(text));
  return Json(value);
}

Result<Json> ShapeOf(std::string_view text) {
  if (text == "unknown" || text == "{}") return Json(nullptr);
  if (!text.starts_with('[') || !text.ends_with(']')) return Unreadable(text, "shape");
  Json dims = Json::array();
  for (const std::string& piece : SplitOutside(text.substr(1, text.size() - 2), ',')) {
    if (Trim(piece).empty()) continue;
    TENON_TRY_ASSIGN(Json dim, Trim(piece) == "?" ? Result<Json>(Json(-1)) : NumberOf<int64_t>(Trim(piece), "shape"));
    dims.push_back(std::move(dim));
  }
  return dims;
}

// uint8 [1, 2]
Result<Json> TensorOf(std::string_view text) {
  const size_t bracket = std::min(text.find('['), text.size());
  TENON_TRY_ASSIGN(const Json value, ListOf("int", text.substr(bracket)));
  return Json{
      {"dtype", TypeText(std::string(Trim(text.substr(0, bracket))))}, {"shape", {value.size()}}, {"value", value}};
}

Result<Json> ValueOf(const std::string& type, std::string_view text) {
  if (type == "int") return NumberOf<int64_t>(text, "integer");
  if (type == "float") return NumberOf<double>(text, "number");
  if (type == "bool") return Json(text == "true");
  if (type == "type") return Json(TypeText(std::string(text)));
  if (type == "shape") return ShapeOf(text);
  if (type == "tensor") return TensorOf(text);
  if (text.size() >= 2 && (text[0] == '\'' || text[0] == '"')) text = text.substr(1, text.size() - 2);
  return Json(text);  // string, func
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json ArgumentJson(const OpSignature& signature, const Argument& argument) {
  const bool of_attribute = signature.FindAttribute(argument.type) != nullptr;
  return {{"name", argument.name},
          {"dtype", of_attribute ? Json(nullptr) : Json(TypeText(argument.type))},
          {"type_attr", TextOrNull(of_attribute && !argument.is_type_list ? argument.type : "")},
          {"number_attr", TextOrNull(argument.number_attr)},
          {"type_list_attr", TextOrNull(argument.is_type_list ? argument.type : "")},
          {"is_ref", argument.is_reference}};
}

Result<Json> AttributeJson(const OpSignature& signature, const Attribute& attribute) {
  Json allowed = nullptr;
  if (!attribute.allowed.empty()) {
    allowed = Json::array();
    for (const std::string& each : attribute.allowed)
      allowed.push_back(attribute.type == "type" ? TypeText(each) : each);
  }
  Json json = {{"name", attribute.name},
               {"type", attribute.type},
               {"is_list", attribute.is_list},
               {"allowed", std::move(allowed)},
               {"minimum", attribute.minimum ? Json(*attribute.minimum) : Json(nullptr)},
               {"inferred", signature.IsInferred(attribute.name)}};
  if (!attribute.default_text) return json;  // "default" is not there: whoever makes a node gives it, or the inputs do
  Result<Json> value = attribute.is_list ? ListOf(attribute.type, *attribute.default_text)
                                         : ValueOf(attribute.type, *attribute.default_text);
  if (!value.ok()) return value.status().Annotate("op '" + signature.op + "', attribute '" + attribute.name + "'");
  json["default"] = *std::move(value);
  return json;
}

}  // namespace

Result<Json> SignatureJson(const OpSignature& signature) {
  Json json = {{"inputs", Json::array()}, {"outputs", Json::array()}, {"attrs", Json::array()}};
  for (const Argument& input : signature.inputs) json["inputs"].push_back(ArgumentJson(signature, input));
  for (const Argument& output : signature.outputs) json["outputs"].push_back(ArgumentJson(signature, output));
  for (const Attribute& attribute : signature.attributes) {
    TENON_TRY_ASSIGN(Json made, AttributeJson(signature, attribute));
    json["attrs"].push_back(std::move(made));
  }
  return json;
}

Json KernelTypesJson(std::string_view types) {
  Json json = Json::object();
  for (const std::string& piece : SplitOutside(types, ';')) {
    const size_t colon = piece.find(':');
    if (colon == std::string::npos) continue;
    Json& of = json[std::string(Trim(std::string_view(piece).substr(0, colon)))] = Json::array();
    for (const std::string& type : SplitOutside(std::string_view(piece).substr(colon + 1), ','))
      of.push_back(TypeText(std::string(Trim(type))));
  }
  return json;
}

}  // namespace tenon::cli
