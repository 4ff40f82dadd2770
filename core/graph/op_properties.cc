// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_properties.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "core/graph/text_scanner.h"
#include "tenon/formula.h"

namespace tenon::graph {
namespace {

constexpr uint64_t kKinds = TENON_PROPERTY_ELEMENTWISE | TENON_PROPERTY_MOVES | TENON_PROPERTY_VIEW |
                            TENON_PROPERTY_PRODUCT | TENON_PROPERTY_REDUCES | TENON_PROPERTY_NORMALIZES;

struct PropertyTerm {
  std::string_view word;
  uint64_t flag;                 // 0: "rows"
  size_t least = 0, most = 0;    // names in parentheses
};
constexpr size_t kAnyNumber = 64;
constexpr PropertyTerm kTerms[] = {
    {"elementwise", TENON_PROPERTY_ELEMENTWISE, 0, kAnyNumber},
    {"moves", TENON_PROPERTY_MOVES, 1, kAnyNumber},
    {"view", TENON_PROPERTY_VIEW, 1, 1},
    {"product", TENON_PROPERTY_PRODUCT, 1, 2},  // one: a list of two
    {"reduces", TENON_PROPERTY_REDUCES, 1, 3},
    {"normalizes", TENON_PROPERTY_NORMALIZES, 1, kAnyNumber},
    {"rows", 0, 1, kAnyNumber},
    {"broadcasts", TENON_PROPERTY_BROADCASTS},
    {"exact", TENON_PROPERTY_EXACT},
    {"curve", TENON_PROPERTY_CURVE},
    {"draws", TENON_PROPERTY_DRAWS},
    {"reads_state", TENON_PROPERTY_READS_STATE},
    {"updates_state", TENON_PROPERTY_UPDATES_STATE},
    {"keeps_nan", TENON_PROPERTY_KEEPS_NAN},
    {"keeps_zero_sign", TENON_PROPERTY_KEEPS_ZERO_SIGN},
    {"fits_half", TENON_PROPERTY_FITS_HALF},
};
constexpr std::string_view kFormula = "computes";

// As tenon/formula.h has them.
struct FormulaFunction {
  std::string_view name;
  size_t operands;  // 0: any number
};
constexpr FormulaFunction kFunctions[] = {
    {"neg", 1}, {"abs", 1}, {"sign", 1}, {"square", 1}, {"reciprocal", 1}, {"sqrt", 1}, {"rsqrt", 1}, {"floor", 1},
    {"ceil", 1}, {"round", 1}, {"exp", 1}, {"expm1", 1}, {"log", 1}, {"log1p", 1}, {"sin", 1}, {"cos", 1}, {"tan", 1},
    {"asin", 1}, {"acos", 1}, {"atan", 1}, {"sinh", 1}, {"cosh", 1}, {"tanh", 1}, {"asinh", 1}, {"acosh", 1},
    {"atanh", 1}, {"erf", 1}, {"erfc", 1}, {"erfinv", 1}, {"lgamma", 1}, {"digamma", 1}, {"sigmoid", 1}, {"relu", 1},
    {"relu6", 1}, {"elu", 1}, {"selu", 1}, {"softplus", 1}, {"softsign", 1}, {"logical_not", 1}, {"bitwise_not", 1},
    {"is_nan", 1}, {"is_inf", 1}, {"is_finite", 1}, {"cast", 2}, {"leaky_relu", 2}, {"add", 2}, {"sub", 2},
    {"mul", 2}, {"div", 2}, {"maximum", 2}, {"minimum", 2}, {"squared_difference", 2}, {"floor_div", 2},
    {"truncate_div", 2}, {"floor_mod", 2}, {"truncate_mod", 2}, {"div_no_nan", 2}, {"mul_no_nan", 2}, {"xdivy", 2},
    {"xlogy", 2}, {"xlog1py", 2}, {"pow", 2}, {"atan2", 2}, {"next_after", 2}, {"bitwise_and", 2}, {"bitwise_or", 2},
    {"bitwise_xor", 2}, {"left_shift", 2}, {"right_shift", 2}, {"equal", 2}, {"not_equal", 2}, {"less", 2},
    {"less_equal", 2}, {"greater", 2}, {"greater_equal", 2}, {"logical_and", 2}, {"logical_or", 2}, {"tanh_grad", 2},
    {"sigmoid_grad", 2}, {"sqrt_grad", 2}, {"rsqrt_grad", 2}, {"reciprocal_grad", 2}, {"relu_grad", 2},
    {"relu6_grad", 2}, {"elu_grad", 2}, {"selu_grad", 2}, {"softplus_grad", 2}, {"softsign_grad", 2},
    {"leaky_relu_grad", 3}, {"select", 3}, {"clip", 3}, {"add_n", 0}};

std::string KnownTerms() {
  std::string known;
  for (const PropertyTerm& term : kTerms) known += StrCat(term.word, ", ");
  return known + std::string(kFormula);
}

class PropertyReader {
 public:
  PropertyReader(std::string_view text, const PropertyNames& names) : scanner_(text), names_(names) {}

  Result<OpProperties> Read() {
    found_.is_said = !scanner_.done();
    while (!scanner_.done()) {
      TENON_RETURN_IF_ERROR(ReadTerm());
      if (!scanner_.done() && !scanner_.Take(",")) return scanner_.Error("',' between properties");
    }
    if (std::popcount(found_.flags & kKinds) > 1)
      return InvalidArgument(
          "properties: an op is of one kind, of elementwise, moves, view, product, reduces and normalizes");
    for (const uint64_t beside : {TENON_PROPERTY_BROADCASTS, TENON_PROPERTY_CURVE})
      if ((found_.flags & beside) != 0 && (found_.flags & TENON_PROPERTY_ELEMENTWISE) == 0)
        return InvalidArgument("properties: 'broadcasts' and 'curve' are said beside 'elementwise'");
    if (!found_.formula.empty()) {
      if ((found_.flags & kKinds & ~TENON_PROPERTY_ELEMENTWISE) != 0)
        return InvalidArgument("properties: 'computes' is said beside no kind but 'elementwise'");
      if (!names_.has_one_output) return InvalidArgument("properties: 'computes' is for ops of one output");
    }
    if ((found_.flags & (TENON_PROPERTY_MOVES | TENON_PROPERTY_VIEW)) != 0) found_.flags |= TENON_PROPERTY_EXACT;
    return std::move(found_);
  }

 private:
  Status ReadTerm() {
    const std::string word = scanner_.TakeName();
    if (word == kFormula) return ReadFormula();
    const auto* const term =
        std::find_if(std::begin(kTerms), std::end(kTerms), [&](const PropertyTerm& each) { return each.word == word; });
    if (term == std::end(kTerms))
      return InvalidArgument(
          StrCat("properties: '", word, "' is none that this host knows; there are: ", KnownTerms()));
    std::vector<std::string> names;
    if (scanner_.Take("(")) {
      do {
        names.push_back(scanner_.TakeName());
      } while (scanner_.Take(","));
      if (!scanner_.Take(")")) return scanner_.Error(StrCat("')' after the names of '", word, "'"));
    }
    if (names.size() < term->least || names.size() > term->most)
      return InvalidArgument(StrCat("properties: '", word, "' takes ", term->least, " to ", term->most, " names; ",
                                    names.size(), " are given"));
    found_.flags |= term->flag;
    if (term->flag == TENON_PROPERTY_REDUCES) return ReadReduction(names);
    if (term->flag == 0) return ReadInputs(names, word, &found_.rows);
    if ((term->flag & kKinds) == 0) return Status::Ok();
    if (names.empty()) names = names_.inputs;
    return ReadInputs(names, word, &found_.elements);
  }

  Status ReadFormula() {
    if (!found_.formula.empty()) return InvalidArgument("properties: 'computes' is said twice");
    if (!scanner_.Take("(")) return scanner_.Error("'(' before the formula of 'computes'");
    std::string type;
    TENON_RETURN_IF_ERROR(ReadFunction(scanner_.TakeName(), 0, &type));
    if (!scanner_.Take(")")) return scanner_.Error("')' after the formula of 'computes'");
    if (names_.has_one_output && !type.empty() && type != names_.output_type)
      return InvalidArgument("properties: what the op 'computes' is not of its output's type");
    for (const std::string& word : words_) found_.formula += StrCat(found_.formula.empty() ? "" : " ", word);
    return Status::Ok();
  }
  // type: of what it gives, as PropertyNames has types; empty: any, of numbers and attributes alone.
  Status ReadFunction(const std::string& name, int depth, std::string* type) {
    const auto* const function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                              [&](const FormulaFunction& each) { return each.name == name; });
    if (function == std::end(kFunctions)) return NoFunction(name);
    if (!scanner_.Take("(")) return scanner_.Error(StrCat("'(' after '", name, "', in a formula,"));
    constexpr int kDeepest = 16;
    if (depth > kDeepest) return InvalidArgument(StrCat("properties: a formula deeper than ", kDeepest, " functions"));
    size_t count = 0;
    std::string operands = name.starts_with("logical_") ? names_.truth_type : "";  // their type
    do {
      std::string own;
      TENON_RETURN_IF_ERROR(ReadOperand(name, function->operands == 0, depth, &own));
      const bool is_condition = name == "select" && count == 0;
      const std::string& wanted = is_condition ? names_.truth_type : operands;
      if (!own.empty() && !wanted.empty() && own != wanted)
        return InvalidArgument(
            StrCat("properties: operand ", count, " of '", name, "' is of another type than it takes"));
      if (operands.empty() && !is_condition) operands = own;
      ++count;
    } while (scanner_.Take(","));
    *type = Asks(name) ? names_.truth_type : name == "cast" ? names_.output_type : operands;
    if (!scanner_.Take(")")) return scanner_.Error(StrCat("')' after the operands of '", name, "'"));
    if (function->operands != 0 && count != function->operands)
      return InvalidArgument(
          StrCat("properties: '", name, "' is of ", function->operands, " operands; ", count, " are given"));
    return AddWord(StrCat(name, "/", count));
  }
  // Whether it gives a truth value.
  static bool Asks(std::string_view name) {
    constexpr std::string_view kAsk[] = {"equal",   "not_equal",     "less",       "less_equal",
                                         "greater", "greater_equal", "logical_or", "logical_and"};
    return name.starts_with("is_") || name == "logical_not" ||
           std::find(std::begin(kAsk), std::end(kAsk), name) != std::end(kAsk);
  }
  Status ReadOperand(const std::string& function, bool may_be_list, int depth, std::string* type) {
    const std::string name = scanner_.TakeName();
    if (name.empty()) {
      const std::optional<double> number = scanner_.TakeFloat();
      if (!number || !std::isfinite(*number)) return scanner_.Error(StrCat("an operand of '", function, "'"));
      char text[32];
      return AddWord(std::string(text, std::to_chars(text, std::end(text), *number).ptr));
    }
    if (scanner_.Peek("(")) return ReadFunction(name, depth + 1, type);
    if (const std::optional<size_t> input = InputOf(name)) {
      if (names_.are_lists[*input] && !may_be_list)
        return InvalidArgument(StrCat("properties: '", name, "' is a list, of which '", function, "' takes none"));
      *type = names_.types[*input];
      return AddWord(StrCat("$", name));
    }
    const uint32_t kind = names_.kind_of_attr(name);
    if (kind != TENON_ATTR_FLOAT && kind != TENON_ATTR_INT && kind != TENON_ATTR_BOOL)
      return InvalidArgument(StrCat("properties: a formula has '", name,
                                    "', which is neither an input nor an attribute of type float, int or bool"));
    return AddWord(StrCat("@", name));
  }
  Status AddWord(std::string word) {
    if (words_.size() == TENON_MAX_FORMULA_WORDS)
      return InvalidArgument(StrCat("properties: a formula of more than ", TENON_MAX_FORMULA_WORDS, " words"));
    words_.push_back(std::move(word));
    return Status::Ok();
  }
  static Status NoFunction(const std::string& name) {
    std::string known;
    for (const FormulaFunction& each : kFunctions) known += StrCat(known.empty() ? "" : ", ", each.name);
    return InvalidArgument(StrCat("properties: '", name, "' is no function of formulas; there are: ", known));
  }

  Status ReadInputs(const std::vector<std::string>& names, std::string_view word,
                    std::vector<size_t>* out_inputs) const {
    for (const std::string& name : names) {
      const std::optional<size_t> input = InputOf(name);
      if (!input)
        return InvalidArgument(StrCat("properties: '", word, "' names '", name, "', which is no input of the op"));
      out_inputs->push_back(*input);
    }
    return Status::Ok();
  }

  Status ReadReduction(const std::vector<std::string>& names) {
    TENON_RETURN_IF_ERROR(ReadInputs({names[0]}, "reduces", &found_.elements));
    if (names.size() > 1) {
      if (const std::optional<size_t> input = InputOf(names[1])) found_.axes_argument = static_cast<int64_t>(*input);
      else if ((names_.kind_of_attr(names[1]) & ~TENON_ATTR_LIST) == TENON_ATTR_INT) found_.axes_attr = names[1];
      else
        return InvalidArgument(StrCat("properties: 'reduces' has its axes of '", names[1],
                                      "', which is neither an input nor an attribute of type int or list(int)"));
    }
    if (names.size() > 2) {
      if (names_.kind_of_attr(names[2]) != TENON_ATTR_BOOL)
        return InvalidArgument(
            StrCat("properties: 'reduces' keeps dims by '", names[2], "', which is no attribute of type bool"));
      found_.keep_dims_attr = names[2];
    }
    return Status::Ok();
  }

  std::optional<size_t> InputOf(std::string_view name) const {
    const auto found = std::find(names_.inputs.begin(), names_.inputs.end(), name);
    if (found == names_.inputs.end()) return std::nullopt;
    return static_cast<size_t>(found - names_.inputs.begin());
  }

  TextScanner scanner_;
  const PropertyNames& names_;
  std::vector<std::string> words_;  // of the formula
  OpProperties found_;
};

}  // namespace

Result<OpProperties> ParseProperties(std::string_view text, const PropertyNames& names) {
  return PropertyReader(text, names).Read();
}

}  // namespace tenon::graph
