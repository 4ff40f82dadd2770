// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/signature.h"

#include <algorithm>
#include <charconv>

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

Status BadPiece(const OpSignature& signature, std::string_view piece) {
  return Status(Code::kInvalidArgument,
                "op '" + signature.op + "': its signature's '" + std::string(piece) + "' cannot be understood");
}

// "name: rest" as a pair; false when there is no colon.
bool SplitName(std::string_view piece, std::string* name, std::string_view* rest) {
  const size_t colon = piece.find(':');
  if (colon == std::string_view::npos) return false;
  *name = Trim(piece.substr(0, colon));
  *rest = Trim(piece.substr(colon + 1));
  return !name->empty() && !rest->empty();
}

// The types of a group, as TensorFlow has them, or the one of that name.
std::vector<std::string> TypesOf(std::string_view name) {
  constexpr std::string_view kReal = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64",
                             kComplex = "complex64 complex128", kQuantized = "qint8 quint8 qint32 qint16 quint16";
  std::string all(name);
  if (name == "numbertype") all = std::string(kReal) + " " + std::string(kComplex) + " " + std::string(kQuantized);
  if (name == "realnumbertype") all = kReal;
  if (name == "quantizedtype") all = kQuantized;
  return SplitOutside(all, ' ');
}

// {float, realnumbertype} or {'A', 'B'}.
std::vector<std::string> ParseAllowed(std::string_view braces, bool are_types) {
  std::vector<std::string> allowed;
  for (const std::string& piece : SplitOutside(braces.substr(1, braces.size() - 2), ',')) {
    const std::string_view option = Trim(piece);
    if (option.empty()) continue;
    if (!are_types) {
      allowed.emplace_back(option.substr(1, option.size() - 2));
      continue;
    }
    for (std::string& type : TypesOf(option))
      if (std::find(allowed.begin(), allowed.end(), type) == allowed.end()) allowed.push_back(std::move(type));
  }
  return allowed;
}

Result<Attribute> ParseAttribute(const OpSignature& signature, std::string_view piece) {
  Attribute attribute;
  std::string_view rest;
  if (!SplitName(piece, &attribute.name, &rest)) return BadPiece(signature, piece);
  // The default follows the first '=' that is no part of '>=' and stands outside quotes and brackets.
  const std::vector<std::string> halves = SplitOutside(rest, '=');
  std::string type(Trim(halves[0]));
  if (type.ends_with('>')) {
    type = Trim(std::string_view(type).substr(0, type.size() - 1));  // ">= 1": a bound, which the engine checks
    int64_t minimum = 0;
    const std::string_view bound = halves.size() > 1 ? Trim(halves[1]) : std::string_view();
    if (std::from_chars(bound.data(), bound.data() + bound.size(), minimum).ptr != bound.data() + bound.size() ||
        bound.empty())
      return BadPiece(signature, piece);
    attribute.minimum = minimum;
    if (halves.size() > 2) attribute.default_text = Trim(halves[2]);
  } else if (halves.size() > 1) {
    attribute.default_text = Trim(halves[1]);
  }
  if (type.starts_with("list(") && type.ends_with(')')) {
    attribute.is_list = true;
    type = Trim(std::string_view(type).substr(5, type.size() - 6));
  }
  if (type.starts_with('{')) {
    if (!type.ends_with('}')) return BadPiece(signature, piece);
    attribute.type = type.find_first_of("'\"") == std::string::npos ? "type" : "string";
    attribute.allowed = ParseAllowed(type, attribute.type == "type");
  } else if (type.ends_with("type")) {
    attribute.type = "type";  // numbertype and its like
    if (type != "type") attribute.allowed = TypesOf(type);
  } else {
    attribute.type = type;
  }
  constexpr std::string_view kTypes[] = {"string", "int", "float", "bool", "type", "shape", "tensor", "func"};
  if (std::find(std::begin(kTypes), std::end(kTypes), attribute.type) == std::end(kTypes))
    return BadPiece(signature, piece);
  return attribute;
}

Result<std::vector<Argument>> ParseArguments(const OpSignature& signature, std::string_view text) {
  std::vector<Argument> arguments;
  for (const std::string& piece : SplitOutside(text, ',')) {
    if (Trim(piece).empty()) continue;
    Argument argument;
    std::string_view type;
    if (!SplitName(piece, &argument.name, &type)) return BadPiece(signature, piece);
    // "Ref(T)", "N * Ref(T)", "Ref(N * T)"
    const auto take_reference = [&] {
      if (!type.starts_with("Ref(") || !type.ends_with(')')) return;
      argument.is_reference = true;
      type = Trim(type.substr(4, type.size() - 5));
    };
    take_reference();
    if (const size_t star = type.find('*'); star != std::string_view::npos) {
      argument.number_attr = Trim(type.substr(0, star));
      type = Trim(type.substr(star + 1));
    }
    take_reference();
    argument.type = type;
    const Attribute* attribute = signature.FindAttribute(type);
    argument.is_type_list = attribute != nullptr && attribute->is_list;
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string> SplitOutside(std::string_view text, char separator) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  char quote = '\0';
  for (char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      --depth;
    } else if (c == separator && depth == 0) {
      pieces.emplace_back();
      continue;
    }
    pieces.back() += c;
  }
  return pieces;
}

const Attribute* OpSignature::FindAttribute(std::string_view name) const {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

bool OpSignature::IsInferred(std::string_view attribute) const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Argument& input) { return input.type == attribute || input.number_attr == attribute; });
}

Result<OpSignature> ParseSignature(const tenon_op_info& info) {
  OpSignature signature;
  signature.op = host::Text(info.name);
  signature.doc = host::Text(info.doc);
  for (const std::string& piece : SplitOutside(host::Text(info.attrs), ';')) {
    if (Trim(piece).empty()) continue;
    TENON_TRY_ASSIGN(Attribute attribute, ParseAttribute(signature, piece));
    signature.attributes.push_back(std::move(attribute));
  }
  TENON_TRY_ASSIGN(signature.inputs, ParseArguments(signature, host::Text(info.inputs)));
  TENON_TRY_ASSIGN(signature.outputs, ParseArguments(signature, host::Text(info.outputs)));
  return signature;
}

}  // namespace tenon::cli
