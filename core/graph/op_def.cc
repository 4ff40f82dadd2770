// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_def.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/graph/text_scanner.h"

namespace tenon::graph {
namespace {

const std::vector<DType>& RealNumberTypes() {
  static const std::vector<DType> types = {
      TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32,  TENON_DT_UINT8, TENON_DT_INT16,  TENON_DT_INT8,
      TENON_DT_INT64, TENON_DT_BFLOAT16, TENON_DT_UINT16, TENON_DT_HALF,  TENON_DT_UINT32, TENON_DT_UINT64};
  return types;
}

const std::vector<DType>& NumberTypes() {
  static const std::vector<DType> types = [] {
    std::vector<DType> all = RealNumberTypes();
    for (DType type : {TENON_DT_COMPLEX64, TENON_DT_COMPLEX128, TENON_DT_QINT8, TENON_DT_QUINT8, TENON_DT_QINT32,
                       TENON_DT_QINT16, TENON_DT_QUINT16})
      all.push_back(type);
    return all;
  }();
  return types;
}

// A group or a type by name; empty when it is neither.
std::vector<DType> TypesNamed(const std::string& name) {
  if (name == "numbertype") return NumberTypes();
  if (name == "realnumbertype") return RealNumberTypes();
  if (name == "quantizedtype")
    return {TENON_DT_QINT8, TENON_DT_QUINT8, TENON_DT_QINT32, TENON_DT_QINT16, TENON_DT_QUINT16};
  const DType type = TypeFromName(name);
  return type == TENON_DT_INVALID ? std::vector<DType>{} : std::vector<DType>{type};
}

Status ParseAllowed(TextScanner& scanner, AttrDef& attr) {
  do {
    if (auto text = scanner.TakeQuoted()) {
      attr.kind = TENON_ATTR_STRING;
      attr.allowed_strings.push_back(*text);
      continue;
    }
    const std::vector<DType> types = TypesNamed(scanner.TakeName());
    if (types.empty()) return scanner.Error("a type or a quoted string");
    attr.kind = TENON_ATTR_TYPE;
    for (DType type : types) attr.allowed_types.push_back(type);
  } while (scanner.Take(","));
  return scanner.Take("}") ? Status::Ok() : scanner.Error("'}'");
}

Status ParseKind(TextScanner& scanner, AttrDef& attr, bool is_element = false) {
  if (scanner.Take("{")) return ParseAllowed(scanner, attr);
  const std::string name = scanner.TakeName();
  if (name == "list") {
    if (is_element) return scanner.Error("what a list is of, which is no list");
    if (!scanner.Take("(")) return scanner.Error("'('");
    TENON_RETURN_IF_ERROR(ParseKind(scanner, attr, true));
    attr.kind |= TENON_ATTR_LIST;
    return scanner.Take(")") ? Status::Ok() : scanner.Error("')'");
  }
  static const std::map<std::string, uint32_t> kinds = {
      {"string", TENON_ATTR_STRING}, {"int", TENON_ATTR_INT},       {"float", TENON_ATTR_FLOAT},
      {"bool", TENON_ATTR_BOOL},     {"type", TENON_ATTR_TYPE},     {"shape", TENON_ATTR_SHAPE},
      {"tensor", TENON_ATTR_TENSOR}, {"func", TENON_ATTR_FUNCTION}};
  if (auto it = kinds.find(name); it != kinds.end()) {
    attr.kind = it->second;
    return Status::Ok();
  }
  attr.allowed_types = TypesNamed(name);
  attr.kind = TENON_ATTR_TYPE;
  return attr.allowed_types.empty() ? scanner.Error("an attribute's type") : Status::Ok();
}

Result<Shape> ParseShape(TextScanner& scanner) {
  if (scanner.Take("unknown") || scanner.Take("{}")) return Shape::Unknown();
  if (!scanner.Take("[")) return scanner.Error("a shape");
  std::vector<int64_t> dims;
  while (!scanner.Take("]")) {
    if (scanner.Take("?")) dims.push_back(-1);
    else if (auto dim = scanner.TakeInt()) dims.push_back(*dim);
    else return scanner.Error("a dim");
    (void)scanner.Take(",");
  }
  return Shape(std::move(dims));
}

// uint8 [1, 2]: a vector of integers.
Result<AttrValue> ParseTensor(TextScanner& scanner) {
  const DType type = TypeFromName(scanner.TakeName());
  if (!IsPlain(type) || IsFloating(type) || type == TENON_DT_BOOL || SizeOf(type) > 8)
    return scanner.Error("a type of integers");
  if (!scanner.Take("[")) return scanner.Error("'['");
  std::string bytes;
  int64_t count = 0;
  for (; !scanner.Take("]"); ++count) {
    const auto value = scanner.TakeInt();
    if (!value) return scanner.Error("an integer");
    bytes.append(reinterpret_cast<const char*>(&*value), SizeOf(type));  // little-endian
    (void)scanner.Take(",");
  }
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(GlobalPool(), type, Shape({count})));
  std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return AttrValue::OfTensor(std::move(tensor));
}

Result<AttrValue> ParseScalar(TextScanner& scanner, uint32_t kind) {
  switch (kind) {
    case TENON_ATTR_STRING:
      if (auto text = scanner.TakeQuoted()) return AttrValue::String(*text);
      return scanner.Error("a quoted string");
    case TENON_ATTR_INT:
      if (auto value = scanner.TakeInt()) return AttrValue::Int(*value);
      return scanner.Error("an integer");
    case TENON_ATTR_FLOAT:
      if (auto value = scanner.TakeFloat()) return AttrValue::Float(static_cast<float>(*value));
      return scanner.Error("a number");
    case TENON_ATTR_BOOL:
      if (scanner.Take("true")) return AttrValue::Bool(true);
      if (scanner.Take("false")) return AttrValue::Bool(false);
      return scanner.Error("true or false");
    case TENON_ATTR_TYPE:
      if (DType type = TypeFromName(scanner.TakeName())) return AttrValue::Type(type);
      return scanner.Error("a type");
    case TENON_ATTR_SHAPE: {
      TENON_ASSIGN_OR_RETURN(Shape shape, ParseShape(scanner));
      return AttrValue::OfShape(std::move(shape));
    }
    case TENON_ATTR_FUNCTION:
      return AttrValue::Function({scanner.TakeName(), nullptr});
    case TENON_ATTR_TENSOR:
      return ParseTensor(scanner);
    default:
      return scanner.Error("a default of this type");
  }
}

// [a, b]: the scalars' values gathered into one list.
Result<AttrValue> ParseList(TextScanner& scanner, uint32_t kind) {
  if (!scanner.Take("[")) return scanner.Error("'['");
  std::vector<AttrValue> values;
  while (!scanner.Take("]")) {
    TENON_ASSIGN_OR_RETURN(AttrValue value, ParseScalar(scanner, kind));
    values.push_back(std::move(value));
    (void)scanner.Take(",");
  }
  const auto gather = [&values](auto get) {
    std::vector<std::decay_t<decltype(get(values[0]))>> out;
    for (const AttrValue& value : values) out.push_back(get(value));
    return out;
  };
  switch (kind) {
    case TENON_ATTR_STRING: return AttrValue::Strings(gather([](const AttrValue& v) { return v.s(); }));
    case TENON_ATTR_INT: return AttrValue::Ints(gather([](const AttrValue& v) { return v.i(); }));
    case TENON_ATTR_FLOAT: return AttrValue::Floats(gather([](const AttrValue& v) { return v.f(); }));
    case TENON_ATTR_BOOL: return AttrValue::Bools(gather([](const AttrValue& v) { return uint8_t{v.b()}; }));
    case TENON_ATTR_TYPE: return AttrValue::Types(gather([](const AttrValue& v) { return v.type(); }));
    case TENON_ATTR_SHAPE: return AttrValue::Shapes(gather([](const AttrValue& v) { return v.shape(); }));
    default: return scanner.Error("a list of this type");
  }
}

Result<AttrDef> ParseAttr(std::string_view text) {
  TextScanner scanner(text);
  AttrDef attr;
  attr.name = scanner.TakeName();
  if (attr.name.empty() || !scanner.Take(":")) return scanner.Error("'name:'");
  TENON_RETURN_IF_ERROR(ParseKind(scanner, attr));
  if (scanner.Take(">=")) {
    attr.minimum = scanner.TakeInt();
    if (!attr.minimum) return scanner.Error("the minimum");
  }
  if (scanner.Take("=")) {
    const uint32_t kind = attr.kind & ~TENON_ATTR_LIST;
    TENON_ASSIGN_OR_RETURN(AttrValue value, (attr.kind & TENON_ATTR_LIST) ? ParseList(scanner, kind)
                                                                           : ParseScalar(scanner, kind));
    attr.default_value = std::move(value);
  }
  if (!scanner.done()) return scanner.Error("the end");
  return attr;
}

Result<std::vector<ArgDef>> ParseArgs(std::string_view text) {
  std::vector<ArgDef> out;
  TextScanner scanner(text);
  while (!scanner.done()) {
    ArgDef arg;
    arg.name = scanner.TakeName();
    if (arg.name.empty() || !scanner.Take(":")) return scanner.Error("'name:'");
    const bool in_ref = scanner.Take("Ref(");
    std::string type = scanner.TakeName();
    if (scanner.Take("*")) {
      arg.number_attr = std::move(type);
      type = scanner.TakeName();
    }
    if (in_ref && !scanner.Take(")")) return scanner.Error("')'");
    arg.is_ref = in_ref;
    arg.type = TypeFromName(type);
    if (arg.type == TENON_DT_INVALID) arg.type_attr = type;  // whether it is a list shows when the attrs are known
    if (type.empty()) return scanner.Error("a type");
    out.push_back(std::move(arg));
    if (!scanner.done() && !scanner.Take(",")) return scanner.Error("','");
  }
  return out;
}

// The attribute that an argument names must exist and be of the right kind.
Status ResolveArgs(const OpDef& op, std::vector<ArgDef>& args) {
  for (ArgDef& arg : args) {
    if (!arg.number_attr.empty()) {
      const AttrDef* attr = op.FindAttr(arg.number_attr);
      if (attr == nullptr || attr->kind != TENON_ATTR_INT)
        return InvalidArgument(
            StrCat("argument '", arg.name, "' names '", arg.number_attr, "', which is no int attribute"));
    }
    if (arg.type_attr.empty()) continue;
    const AttrDef* attr = op.FindAttr(arg.type_attr);
    if (attr != nullptr && attr->kind == (TENON_ATTR_TYPE | TENON_ATTR_LIST)) {
      arg.type_list_attr = std::exchange(arg.type_attr, std::string());
    } else if (attr == nullptr || attr->kind != TENON_ATTR_TYPE) {
      return InvalidArgument(StrCat("argument '", arg.name, "' names '", arg.type_attr,
                                    "', which is neither a type nor a type attribute"));
    }
  }
  return Status::Ok();
}

std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> out;
  TextScanner scanner(text);
  while (!scanner.done()) {
    std::string name = scanner.TakeName();
    if (name.empty()) break;
    out.push_back(std::move(name));
    (void)scanner.Take(",");
  }
  return out;
}

// That the attributes and inputs of which a constraint speaks are there: one that says nothing would hold for ever.
Status CheckTerm(const OpDef& op, const Term& term, const std::string& text) {
  if (term.left != nullptr) TENON_RETURN_IF_ERROR(CheckTerm(op, *term.left, text));
  if (term.right != nullptr) TENON_RETURN_IF_ERROR(CheckTerm(op, *term.right, text));
  const bool is_argument = term.kind == Term::Kind::kRank || term.kind == Term::Kind::kDim ||
                           term.kind == Term::Kind::kNumel || term.kind == Term::Kind::kValue ||
                           term.kind == Term::Kind::kElement;
  if (is_argument &&
      std::none_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& arg) { return arg.name == term.name; }))
    return InvalidArgument(StrCat("'", text, "' names no input: '", term.name, "'"));
  const AttrDef* attr = term.kind == Term::Kind::kName ? op.FindAttr(term.name) : nullptr;
  if (term.kind == Term::Kind::kName && (attr == nullptr || attr->kind != TENON_ATTR_INT))
    return InvalidArgument(StrCat("'", text, "' names '", term.name, "', which is no int attribute"));
  return Status::Ok();
}

Status Parse(const tenon_op_definition& definition, OpDef& op) {
  std::string_view attrs = View(definition.attrs);
  while (!attrs.empty()) {
    const size_t end = attrs.find(';');
    const std::string_view piece = attrs.substr(0, end);
    attrs = end == std::string_view::npos ? std::string_view() : attrs.substr(end + 1);
    if (TextScanner(piece).done()) continue;
    TENON_ASSIGN_OR_RETURN(AttrDef attr, ParseAttr(piece));
    if (op.FindAttr(attr.name) != nullptr) return InvalidArgument(StrCat("attribute '", attr.name, "' stands twice"));
    op.attrs.push_back(std::move(attr));
  }
  TENON_ASSIGN_OR_RETURN(op.inputs, ParseArgs(View(definition.inputs)));
  TENON_ASSIGN_OR_RETURN(op.outputs, ParseArgs(View(definition.outputs)));
  TENON_RETURN_IF_ERROR(ResolveArgs(op, op.inputs));
  TENON_RETURN_IF_ERROR(ResolveArgs(op, op.outputs));
  TENON_ASSIGN_OR_RETURN(op.constraints, ParseConstraints(View(definition.constraints)));
  for (const Constraint& constraint : op.constraints) {
    TENON_RETURN_IF_ERROR(CheckTerm(op, constraint.left, constraint.text));
    TENON_RETURN_IF_ERROR(CheckTerm(op, constraint.right, constraint.text));
    if (!constraint.is_path()) continue;
    const std::string& input = constraint.left.name;
    if (std::none_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& arg) { return arg.name == input; }))
      return InvalidArgument(StrCat("'", constraint.text, "' names no input"));
    op.paths += (op.paths.empty() ? "" : ", ") + input;
  }
  return Status::Ok();
}

bool SameAttr(const AttrDef& a, const AttrDef& b) {
  const bool defaults = a.default_value.has_value() == b.default_value.has_value() &&
                        (!a.default_value || a.default_value->Equals(*b.default_value));
  return a.kind == b.kind && defaults && a.minimum == b.minimum &&
         std::set(a.allowed_types.begin(), a.allowed_types.end()) ==
             std::set(b.allowed_types.begin(), b.allowed_types.end()) &&
         a.allowed_strings == b.allowed_strings;
}

// Whether every attribute of `small` stands in `large`, and the others of `large` have defaults.
bool AttrsWithin(const OpDef& small, const OpDef& large, std::string* difference) {
  for (const AttrDef& attr : small.attrs) {
    const AttrDef* other = large.FindAttr(attr.name);
    if (other == nullptr || !SameAttr(attr, *other)) {
      *difference = "attribute '" + attr.name + "'";
      return false;
    }
  }
  for (const AttrDef& attr : large.attrs)
    if (small.FindAttr(attr.name) == nullptr && !attr.default_value) {
      *difference = "attribute '" + attr.name + "', which has no default";
      return false;
    }
  return true;
}

}  // namespace

const AttrDef* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrDef& candidate : attrs)
    if (candidate.name == attr) return &candidate;
  return nullptr;
}

namespace {

Status ReadProperties(std::string_view text, OpDef& op) {
  PropertyNames names;
  const auto is_list = [](const ArgDef& arg) { return !arg.number_attr.empty() || !arg.type_list_attr.empty(); };
  const auto type_of = [](const ArgDef& arg) {
    return arg.type != TENON_DT_INVALID ? StrCat("=", arg.type) : StrCat(arg.type_attr, " ", arg.type_list_attr);
  };
  for (const ArgDef& input : op.inputs) {
    names.inputs.push_back(input.name);
    names.types.push_back(type_of(input));
    names.are_lists.push_back(is_list(input));
  }
  names.has_one_output = op.outputs.size() == 1 && !is_list(op.outputs[0]);
  if (names.has_one_output) names.output_type = type_of(op.outputs[0]);
  names.truth_type = StrCat("=", DType{TENON_DT_BOOL});
  names.kind_of_attr = [&op](const std::string& name) {
    const AttrDef* const attr = op.FindAttr(name);
    return attr == nullptr ? TENON_ATTR_NONE : attr->kind;
  };
  TENON_ASSIGN_OR_RETURN(op.properties, ParseProperties(text, names));
  return Status::Ok();
}

}  // namespace

Result<OpDef> ParseOpDef(const tenon_op_definition& definition) {
  OpDef op;
  op.name = View(definition.name);
  if (op.name.empty()) return InvalidArgument("an op definition has no name");
  Status status = Parse(definition, op);
  if (status.ok()) status = ReadProperties(View(definition.properties), op);
  if (!status.ok()) return std::move(status).Annotate(StrCat("definition of op '", op.name, "'"));
  op.traits = definition.traits;
  if (op.has(TENON_OP_WRITES_STATE)) op.properties.flags |= TENON_PROPERTY_UPDATES_STATE;
  constexpr uint64_t kMore = TENON_PROPERTY_DRAWS | TENON_PROPERTY_READS_STATE | TENON_PROPERTY_UPDATES_STATE;
  if (!op.properties.formula.empty() &&
      (op.has(TENON_OP_STATEFUL | TENON_OP_IO) || (op.properties.flags & kMore) != 0))
    return InvalidArgument(StrCat("definition of op '", op.name,
                                  "': properties: it 'computes' a formula, and has state or effects besides, which who "
                                  "computes the formula would leave out"));
  if (op.has(TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION))
    op.properties.flags |= TENON_PROPERTY_STEERS;
  op.roles = SplitNames(View(definition.roles));
  op.doc = View(definition.doc);
  op.deprecation = View(definition.deprecation);
  op.deprecated_at = definition.deprecated_at;
  op.version = definition.version;
  op.c = &definition;
  return op;
}

Sameness Compare(const OpDef& a, const OpDef& b, std::string* difference) {
  const auto differ = [difference](const char* what) {
    *difference = what;
    return Sameness::kDifferent;
  };
  if (a.inputs != b.inputs) return differ("inputs");
  if (a.outputs != b.outputs) return differ("outputs");
  if (a.traits != b.traits) return differ("traits");
  // One that says nothing of itself may be of a package that is older than properties.
  if (a.properties.is_said && b.properties.is_said && a.properties != b.properties) return differ("properties");
  const bool first = AttrsWithin(b, a, difference);
  const bool second = AttrsWithin(a, b, difference);
  if (!first && !second) return Sameness::kDifferent;
  if (first && second && a.version == b.version) return Sameness::kEqual;
  // The later version has the attributes of the earlier one.
  if (a.version > b.version ? !first : a.version < b.version && !second)
    return differ("attributes, of which the later version has fewer");
  return (first && second) ? (a.version > b.version ? Sameness::kFirstLarger : Sameness::kSecondLarger)
                           : (first ? Sameness::kFirstLarger : Sameness::kSecondLarger);
}

}  // namespace tenon::graph
