// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_properties.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "core/graph/text_scanner.h"

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

std::string KnownTerms() {
  std::string known;
  for (const PropertyTerm& term : kTerms) known += StrCat(known.empty() ? "" : ", ", term.word);
  return known;
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
    if ((found_.flags & (TENON_PROPERTY_MOVES | TENON_PROPERTY_VIEW)) != 0) found_.flags |= TENON_PROPERTY_EXACT;
    return std::move(found_);
  }

 private:
  Status ReadTerm() {
    const std::string word = scanner_.TakeName();
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
  OpProperties found_;
};

}  // namespace

Result<OpProperties> ParseProperties(std::string_view text, const PropertyNames& names) {
  return PropertyReader(text, names).Read();
}

}  // namespace tenon::graph
