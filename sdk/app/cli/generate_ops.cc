// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/generate_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace tenon::cli {
namespace {

using host::Code;
using host::DType;
using host::Result;
using host::Status;

constexpr std::string_view kHeader = R"(// SPDX-License-Identifier: Apache-2.0
// Made by `tenon ops --generate-cpp` from the op packages that were loaded; do not edit.
// One function an op. Attributes that the inputs determine are not asked for; those with a default stand in options,
// where `name` is the node's name. A failure sticks to the graph (Graph::status()).
#pragma once

#include "tenon/host/op_wrapper.h"

namespace tenon::ops {
)";

constexpr std::string_view kFooter = R"(
}  // namespace tenon::ops
)";

// A name that is no keyword and none of the wrapper's own.
std::string Identifier(std::string_view name) {
  static const std::set<std::string_view> kTaken = {
      "alignas",  "alignof", "and",      "asm",       "auto",     "bool",     "break",     "case",    "catch",
      "char",     "class",   "concept",  "const",     "continue", "default",  "delete",    "do",      "double",
      "else",     "enum",    "explicit", "export",    "extern",   "false",    "float",     "for",     "friend",
      "goto",     "if",      "inline",   "int",       "long",     "mutable",  "namespace", "new",     "not",
      "operator", "or",      "private",  "protected", "public",   "register", "requires",  "return",  "short",
      "signed",   "sizeof",  "static",   "struct",    "switch",   "template", "this",      "throw",   "true",
      "try",      "typedef", "typeid",   "typename",  "union",    "unsigned", "using",     "virtual", "void",
      "volatile", "while",   "xor",      "graph",     "options",  "node",     "name",      "host",    "internal",
      "std"};
  std::string identifier;
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) identifier = '_';
  for (char c : name) identifier += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return kTaken.contains(identifier) ? identifier + "_" : identifier;
}

std::string ElementType(const std::string& type) {
  if (type == "string") return "std::string";
  if (type == "int") return "int64_t";
  if (type == "type") return "host::DType";
  if (type == "shape") return "host::Shape";
  if (type == "tensor") return "host::Tensor";
  if (type == "func") return "host::Function";
  return type;  // float, bool
}

std::string CppType(const Attribute& attribute) {
  const std::string element = ElementType(attribute.type);
  return attribute.is_list ? "std::vector<" + element + ">" : element;
}

std::string ParameterType(const Attribute& attribute) {
  const std::string type = CppType(attribute);
  const bool small = !attribute.is_list && (attribute.type == "int" || attribute.type == "float" ||
                                            attribute.type == "bool" || attribute.type == "type");
  return small ? type : "const " + type + "&";
}

// A C++ literal of a string that stands in quotes in the signature.
std::string StringLiteral(std::string_view text) {
  if (text.size() >= 2 && (text[0] == '\'' || text[0] == '"')) text = text.substr(1, text.size() - 2);
  std::string literal = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {  // three octal digits, which what follows cannot lengthen
      constexpr std::string_view kDigits = "01234567";
      for (const char part : {'\\', kDigits[static_cast<size_t>(c) >> 6 & 7], kDigits[static_cast<size_t>(c) >> 3 & 7],
                              kDigits[static_cast<size_t>(c) & 7]})
        literal += part;
      continue;
    }
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + '"';
}

Result<std::string> Literal(const std::string& type, std::string_view text);

Result<std::string> ListLiteral(const std::string& type, std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) {
    return Status(Code::kInvalidArgument, "the default '" + std::string(text) + "' is no list");
  }
  std::string literal = "{";
  for (const std::string& piece : SplitOutside(text.substr(1, text.size() - 2), ',')) {
    if (Trim(piece).empty()) continue;
    TENON_TRY_ASSIGN(const std::string element, Literal(type, Trim(piece)));
    literal += (literal.size() > 1 ? ", " : "") + element;
  }
  return literal + "}";
}

Result<std::string> Literal(const std::string& type, std::string_view text) {
  if (type == "string") return StringLiteral(text);
  if (type == "type") {
    const DType dtype = host::DTypeFromName(text);
    if (dtype == DType::kInvalid) return Status(Code::kInvalidArgument, "there is no type '" + std::string(text) + "'");
    return fmt::format("static_cast<host::DType>({})", static_cast<uint32_t>(dtype));
  }
  if (type == "shape") {
    if (text == "unknown") return std::string("host::Shape::Unknown()");
    TENON_TRY_ASSIGN(const std::string dims, ListLiteral("int", text));
    return "host::Shape" + dims;
  }
  if (type == "float") {
    const bool whole = text.find_first_of(".eE") == std::string_view::npos;
    return std::string(text) + (whole ? ".0f" : "f");
  }
  if (type == "func") return "host::Function{" + StringLiteral(text) + "}";
  if (type == "tensor") {  // uint8 [1, 2]
    const size_t bracket = std::min(text.find('['), text.size());
    TENON_TRY_ASSIGN(const std::string elements, ListLiteral("int", text.substr(bracket)));
    const auto count = elements == "{}" ? 0 : std::count(elements.begin(), elements.end(), ',') + 1;
    return fmt::format("*host::Tensor::From(std::vector<{}_t>{}, host::Shape{{{}}})", Trim(text.substr(0, bracket)),
                       elements, count);
  }
  return std::string(text);  // int, bool
}

// Writes one op.
class Wrapper {
 public:
  explicit Wrapper(const OpSignature& signature) : signature_(signature), name_(Identifier(signature.op)) {}

  Result<std::string> Write() {
    TENON_TRY(CollectAttributes());
    return fmt::format("\n{}{}{}inline {} {}({}) {{\n{}}}\n", Comment(), Options(), OutputStruct(), ReturnType(), name_,
                       Parameters(), Body());
  }

 private:
  Status CollectAttributes() {
    for (const Attribute& attribute : signature_.attributes) {
      if (signature_.IsInferred(attribute.name)) continue;
      if (!attribute.default_text) {
        required_.push_back(&attribute);
        continue;
      }
      Result<std::string> literal = attribute.is_list ? ListLiteral(attribute.type, *attribute.default_text)
                                                      : Literal(attribute.type, *attribute.default_text);
      if (!literal.ok())
        return literal.status().Annotate("op '" + signature_.op + "', attribute '" + attribute.name + "'");
      optional_.emplace_back(&attribute, *literal);
    }
    return Status();
  }

  std::string Comment() const {
    std::string text;
    for (const std::string& line : SplitLines(signature_.doc)) text += "// " + line + "\n";
    return text;
  }
  static std::vector<std::string> SplitLines(const std::string& doc) {
    std::vector<std::string> lines;
    size_t begin = 0;
    while (begin < doc.size()) {
      const size_t end = std::min(doc.find('\n', begin), doc.size());
      std::string line = doc.substr(begin, end - begin);
      while (line.ends_with('\\')) line.pop_back();  // would join the next line to the comment
      lines.push_back(line);
      begin = end + 1;
    }
    return lines;
  }

  std::string OptionsType() const { return optional_.empty() ? "NodeOptions" : name_ + "Options"; }
  std::string Options() const {
    if (optional_.empty()) return "";
    std::string text = "struct " + OptionsType() + " {\n";
    for (const auto& [attribute, literal] : optional_) {
      text += fmt::format("  {} {} = {};\n", CppType(*attribute), Identifier(attribute->name), literal);
    }
    return text + "  std::string name;\n};\n";
  }

  bool HasOutputStruct() const { return signature_.outputs.size() > 1; }
  std::string OutputStruct() const {
    if (!HasOutputStruct()) return "";
    std::string text = "struct " + name_ + "Outputs {\n";
    for (const Argument& output : signature_.outputs) {
      text += fmt::format("  {} {};\n", ArgumentType(output), Identifier(output.name));
    }
    return text + "};\n";
  }
  static std::string ArgumentType(const Argument& argument) {
    return argument.is_list() ? "std::vector<host::Output>" : "host::Output";
  }
  std::string ReturnType() const {
    if (signature_.outputs.empty()) return "host::Operation";
    return HasOutputStruct() ? name_ + "Outputs" : ArgumentType(signature_.outputs[0]);
  }

  std::string Parameters() const {
    std::string text = "host::Graph& graph";
    for (const Argument& input : signature_.inputs) {
      text += fmt::format(", const {}& {}", ArgumentType(input), Identifier(input.name));
    }
    for (const Attribute* attribute : required_) {
      text += fmt::format(", {} {}", ParameterType(*attribute), Identifier(attribute->name));
    }
    return text + fmt::format(", const {}& options = {{}}", OptionsType());
  }

  // Lists of inputs say how long they are: several of them could not be told apart otherwise.
  std::string InferredLists() const {
    std::string text;
    std::set<std::string> said;
    for (const Argument& input : signature_.inputs) {
      const std::string& attribute = input.is_type_list ? input.type : input.number_attr;
      if (attribute.empty() || !said.insert(attribute).second) continue;
      text += input.is_type_list
                  ? fmt::format("{{\"{}\", internal::Types({})}}, ", attribute, Identifier(input.name))
                  : fmt::format("{{\"{}\", static_cast<int64_t>({}.size())}}, ", attribute, Identifier(input.name));
    }
    return text;
  }

  std::string AttributeList() const {
    std::string text = InferredLists();
    for (const Attribute* attribute : required_) {
      text += fmt::format("{{\"{}\", {}}}, ", attribute->name, Identifier(attribute->name));
    }
    for (const auto& [attribute, literal] : optional_) {
      text += fmt::format("{{\"{}\", options.{}}}, ", attribute->name, Identifier(attribute->name));
    }
    if (text.ends_with(", ")) text.resize(text.size() - 2);
    return text;
  }

  // How many tensors an output holds, as an expression.
  std::string CountOf(const Argument& output) const {
    if (!output.is_list()) return "1";
    const std::string& attribute = output.is_type_list ? output.type : output.number_attr;
    for (const Argument& input : signature_.inputs) {
      if ((input.is_type_list && input.type == attribute) || input.number_attr == attribute) {
        return fmt::format("static_cast<int64_t>({}.size())", Identifier(input.name));
      }
    }
    const bool required = std::any_of(required_.begin(), required_.end(),
                                      [&](const Attribute* known) { return known->name == attribute; });
    const std::string value = (required ? "" : "options.") + Identifier(attribute);
    return output.is_type_list ? fmt::format("static_cast<int64_t>({}.size())", value) : value;
  }

  std::string Body() const {
    std::string inputs;
    for (const Argument& input : signature_.inputs) inputs += (inputs.empty() ? "" : ", ") + Identifier(input.name);
    const std::string call = fmt::format("graph.AddNode(\"{}\", internal::Join({}), {{{}}}, options.name)",
                                         signature_.op, inputs, AttributeList());
    if (signature_.outputs.empty()) return "  return " + call + ";\n";
    std::string text = "  const host::Operation node = " + call + ";\n";
    if (!HasOutputStruct()) return text + "  return " + Part(signature_.outputs[0], "0") + ";\n";
    std::string parts, begin = "0";
    for (const Argument& output : signature_.outputs) {
      parts += (parts.empty() ? "" : ", ") + Part(output, begin);
      begin = begin == "0" ? CountOf(output) : begin + " + " + CountOf(output);
    }
    return text + "  return {" + parts + "};\n";
  }
  std::string Part(const Argument& output, const std::string& begin) const {
    if (output.is_list()) return fmt::format("internal::Outputs(node, {}, {})", begin, CountOf(output));
    return begin.find_first_not_of("0123456789 +") == std::string::npos
               ? fmt::format("node.output({})", begin)
               : fmt::format("node.output(static_cast<int32_t>({}))", begin);
  }

  const OpSignature& signature_;
  std::string name_;
  std::vector<const Attribute*> required_;
  std::vector<std::pair<const Attribute*, std::string>> optional_;
};

}  // namespace

Result<std::string> GenerateOp(const OpSignature& signature) { return Wrapper(signature).Write(); }

Result<std::string> GenerateOps(const std::vector<OpSignature>& signatures) {
  std::string text(kHeader);
  for (const OpSignature& signature : signatures) {
    if (signature.op.starts_with('_')) continue;
    TENON_TRY_ASSIGN(const std::string op, GenerateOp(signature));
    text += op;
  }
  return text + std::string(kFooter);
}

}  // namespace tenon::cli
