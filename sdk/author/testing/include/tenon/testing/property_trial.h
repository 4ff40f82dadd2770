// SPDX-License-Identifier: Apache-2.0
// What an op says of itself ("Properties" in tenon/op.h), held against what it does: it is run on given inputs, and
// again on inputs that are others where the property says that it does not matter, or that differ as it says how. A
// definition that lies makes passes and compilers compute something else, and nobody sees where.
//
//   const auto run = [&](const std::vector<Tensor>& in) -> std::optional<std::vector<Tensor>> {
//     Result r = cube.Run(in, {Out<float>(in[0].dims)});
//     return r.text().empty() ? std::optional(r.outputs) : std::nullopt;  // nothing: it refuses them
//   };
//   PropertyTrial trial({.inputs = "x: T", .properties = "elementwise"}, {Make<float>({3}, {1, 2, 3})}, run);
//   EXPECT_EQ(trial.Try(), "");  // or "'elementwise': at element 2: 27 was 8"
//
// Elements are drawn by a seed: the same trial says the same. Properties of which nothing can be seen by such inputs
// (of strings, of too few rows) are not tried; which were is told. One thread.
#ifndef TENON_TESTING_PROPERTY_TRIAL_H_
#define TENON_TESTING_PROPERTY_TRIAL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/span.h"
#include "tenon/testing/elements.h"
#include "tenon/testing/formula_value.h"
#include "tenon/testing/tensor.h"

namespace tenon::testing {

// The terms of a definition's properties, each with the names in its parentheses; "computes" with its formula.
inline std::map<std::string, std::vector<std::string>> PropertyTerms(std::string_view text) {
  std::map<std::string, std::vector<std::string>> terms;
  std::string word, name;
  std::vector<std::string> names;
  int depth = 0;
  const auto end_name = [&] {
    if (!name.empty()) names.push_back(std::exchange(name, ""));
  };
  const auto end_term = [&] {
    if (!word.empty()) terms.emplace(std::exchange(word, ""), std::exchange(names, {}));
  };
  for (const char letter : text) {
    const bool in_formula = depth > 0 && word == "computes";
    if (letter == '(') {
      if (depth++ > 0) name += letter;
    } else if (letter == ')') {
      if (--depth > 0) name += letter;
      else end_name();
    } else if (letter == ',' && !in_formula) {
      depth > 0 ? end_name() : end_term();
    } else if (letter != ' ') {
      (depth > 0 ? name : word) += letter;
    }
  }
  end_term();
  return terms;
}

struct PropertyOp {
  std::string_view inputs, properties;  // as the definition has them
  // The node's attribute, an int, a float or a bool: how long a list is, whether dims are kept. nullopt: it has none.
  std::function<std::optional<double>(const std::string& name)> attr = {};
};

class PropertyTrial : Elements {
 public:
  using Tensors = std::vector<Tensor>;
  using Run = std::function<std::optional<Tensors>(const Tensors& inputs)>;

  // The properties that it can try.
  static const std::set<std::string>& Tried() {
    static const std::set<std::string> tried = [] {
      std::set<std::string> terms;
      for (const Test& test : kTests) terms.insert(test.term);
      return terms;
    }();
    return tried;
  }

  // fixed: inputs that cannot be changed, by number. half: the same op in bfloat16, whose inputs are of it where `run`
  // gets floats; without it nothing is said of fits_half.
  PropertyTrial(const PropertyOp& op, Tensors inputs, Run run, std::set<size_t> fixed = {}, Run half = {},
                uint64_t seed = 1)
      : said_(PropertyTerms(op.properties)),
        attr_(op.attr),
        inputs_(std::move(inputs)),
        run_(std::move(run)),
        half_(std::move(half)),
        fixed_(std::move(fixed)),
        random_(seed) {
    ReadArguments(op.inputs);
    outputs_ = run_(inputs_);
  }
  // Whether it takes these inputs at all.
  bool ok() const { return outputs_.has_value() && !outputs_->empty(); }

  // Empty, or what is not as the op says. tried: each property that was put to the test.
  std::string Try(std::set<std::string>* tried = nullptr) {
    if (!ok()) return "";
    for (const Test& test : kTests) {
      if (!Says(test.term)) continue;
      skipped_ = false;
      if (const std::string wrong = (this->*test.test)(); !wrong.empty())
        return std::string("'") + test.term + "': " + wrong;
      if (!skipped_ && tried != nullptr) tried->insert(test.term);
    }
    return "";
  }

 private:
  struct Test {
    const char* term;
    std::string (PropertyTrial::*test)();
  };
  static const Test kTests[12];

  bool Says(const std::string& term) const { return said_.contains(term); }
  std::string Skip() {
    skipped_ = true;
    return "";
  }

  // Nothing, too, where it gives another number of outputs than before.
  std::optional<Tensors> Again(const Tensors& inputs) const {
    std::optional<Tensors> outputs = run_(inputs);
    if (outputs && outputs->size() != outputs_->size()) outputs.reset();
    return outputs;
  }

  // Which inputs an argument of the op is.
  void ReadArguments(std::string_view text) {
    size_t at = 0;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size()), colon = text.find(':'), star = text.find('*');
      std::string name(text.substr(0, std::min(colon, comma)));
      std::erase(name, ' ');
      size_t count = 1;
      if (star < comma && colon < star) {
        std::string number(text.substr(colon + 1, star - colon - 1));
        std::erase(number, ' ');
        const auto given = attr_ ? attr_(number) : std::nullopt;
        count = given ? static_cast<size_t>(*given) : inputs_.size();
      }
      for (size_t i = 0; i < count && at < inputs_.size(); ++i) arguments_[name].push_back(at++);
      text.remove_prefix(std::min(text.size(), comma + 1));
    }
  }
  std::vector<size_t> InputsOf(const std::string& term) const {
    const std::vector<std::string>& names = said_.at(term);
    std::vector<size_t> inputs;
    for (size_t i = 0; i < inputs_.size() && names.empty(); ++i) inputs.push_back(i);
    for (const std::string& name : names)
      if (const auto found = arguments_.find(name); found != arguments_.end())
        inputs.insert(inputs.end(), found->second.begin(), found->second.end());
    return inputs;
  }
  // Those of them whose elements may be others.
  std::vector<size_t> Changeable(const std::string& term) {
    std::vector<size_t> inputs = InputsOf(term);
    std::erase_if(inputs, [this](size_t i) { return !IsPlain(inputs_[i]) || fixed_.contains(i); });
    if (inputs.empty()) skipped_ = true;
    return inputs;
  }
  int64_t AnyOf(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random_); }

  // ---- Inputs that are others ----

  // The input with others of its elements, but for those places: some twice, some not at all, so that sums change too.
  Tensor Turned(const Tensor& input, const std::set<int64_t>& keep) {
    Tensor turned = input;
    for (int64_t i = 0; i < input.count(); ++i)
      if (!keep.contains(i)) {
        const std::string other = BytesAt(input, AnyOf(input.count()));
        std::memcpy(turned.bytes.data() + static_cast<size_t>(i) * other.size(), other.data(), other.size());
      }
    return turned;
  }

  // ---- The properties ----

  std::string ElementWise() {
    const std::vector<size_t> inputs = Changeable("elementwise");
    const Tensor& first = (*outputs_)[0];
    if (skipped_ || !IsPlain(first)) return Skip();
    for (const size_t i : inputs) {
      if (!Says("broadcasts") && inputs_[i].dims != first.dims) return sdk::Concat("input ", i, " has another shape");
      if (inputs_[i].dims.size() > first.dims.size()) return sdk::Concat("the output has fewer dims than input ", i);
    }
    bool ran = false;
    for (int round = 0; round < 3; ++round) {
      const int64_t place = AnyOf(first.count());
      Tensors changed = inputs_;
      for (const size_t i : inputs)
        changed[i] = Turned(changed[i], {PlaceIn(changed[i].dims, first.dims, place)});
      const auto outputs = Again(changed);
      if (!outputs) continue;  // other elements may be refused together
      ran = true;
      for (size_t k = 0; k < outputs->size(); ++k) {
        if ((*outputs)[k].dims != first.dims) return sdk::Concat("output ", k, " has another shape");
        // As many units as a kernel's vectors and its rest may differ by.
        if (IsPlain((*outputs)[k]) && !Alike((*outputs_)[k], (*outputs)[k], place, 8))
          return Difference((*outputs_)[k], (*outputs)[k], place);
      }
    }
    return ran ? "" : Skip();
  }

  // Each element is the formula's of the elements that broadcast to its place.
  std::string Computes() {
    const Tensor& output = (*outputs_)[0];
    const bool rounds = output.dtype == TENON_DT_FLOAT || output.dtype == TENON_DT_DOUBLE;
    if (!rounds && output.dtype != TENON_DT_BOOL && !IsWhole(output.dtype)) return Skip();
    if (Says("elementwise") && !Says("broadcasts")) {
      const std::vector<size_t> elements = InputsOf("elementwise");
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (!inputs_[i].dims.empty() && inputs_[i].dims != output.dims &&
            std::find(elements.begin(), elements.end(), i) == elements.end())
          return Skip();  // of other shapes it says nothing
    }
    bool any = false;
    for (int64_t place = 0; place < output.count(); ++place) {
      const std::optional<double> want = FormulaAt(place);
      if (!want) return Skip();
      const double got = ExactAt(output, place).value_or(0);
      if (std::isnan(*want) && !rounds) continue;  // a cast of no number
      const double limit = output.dtype == TENON_DT_FLOAT ? 3e38 : rounds ? 1e308 : output.dtype == TENON_DT_BOOL ? 2
                           : std::ldexp(1., static_cast<int>(8 * SizeOf(output) - 1));
      if (std::abs(*want) >= limit) continue;  // overflows, each in its way
      any = true;
      constexpr double kUnits = 64;
      const double wanted = output.dtype == TENON_DT_BOOL ? (*want != 0 ? 1 : 0) : rounds ? *want : std::trunc(*want);
      const double error = kUnits * UnitOf(output.dtype) * std::max(std::abs(wanted), 0x1p-100);
      const bool is_same = std::isnan(wanted) ? std::isnan(got)
                           : rounds           ? std::abs(wanted - got) <= error
                                              : wanted == got;
      if (!is_same) return sdk::Concat("at element ", place, ": ", got, " is not ", wanted);
    }
    return any ? "" : Skip();
  }
  std::optional<double> FormulaAt(int64_t place) const {
    bool whole = false;
    const Dims& shape = (*outputs_)[0].dims;
    const auto named = [&](const std::string& name) -> std::vector<double> {
      std::vector<double> values;
      if (const auto found = arguments_.find(name); found != arguments_.end()) {
        for (const size_t i : found->second) {
          const Tensor& input = inputs_[i];
          const int64_t at = PlaceIn(input.dims, shape, place);
          const auto value = at < input.count() ? ExactAt(input, at) : std::nullopt;
          if (!value) return {};
          values.push_back(*value);
        }
      } else if (const auto attr = attr_ ? attr_(name) : std::nullopt) {
        values.push_back(*attr);
      }
      return values;
    };
    for (const Tensor& input : inputs_) whole = whole || IsWhole(input.dtype);
    return FormulaValue(said_.at("computes").at(0), named, whole).value();
  }

  std::string Moves() {
    const std::vector<size_t> inputs = Changeable("moves");
    if (skipped_) return "";
    Tensors changed = inputs_;
    std::set<std::string> elements;
    for (const size_t i : inputs) {
      for (size_t at = 0; at < changed[i].bytes.size(); at += SizeOf(changed[i])) changed[i].bytes[at] ^= 1;
      for (int64_t place = 0; place < changed[i].count(); ++place) elements.insert(BytesAt(changed[i], place));
    }
    const auto outputs = Again(changed);
    if (!outputs) return "it fails where each element is another";
    for (size_t k = 0; k < outputs->size(); ++k) {
      const Tensor &before = (*outputs_)[k], &after = (*outputs)[k];
      if (!IsPlain(before)) continue;
      if (before.dims != after.dims) return "the shape depends on elements";
      for (int64_t place = 0; place < before.count(); ++place) {
        std::string moved = BytesAt(before, place);
        const std::string is = BytesAt(after, place);
        if (is == moved) continue;  // a constant
        moved[0] ^= 1;
        if (is != moved || !elements.contains(is))
          return sdk::Concat("element ", place, " of output ", k, " is of no element");
      }
    }
    return "";
  }

  std::string Views() {
    const std::vector<size_t> inputs = InputsOf("view");
    if (inputs.empty()) return Skip();
    const Tensor& input = inputs_[inputs[0]];
    if (!IsPlain(input) || !IsPlain((*outputs_)[0])) return Skip();
    return input.bytes == (*outputs_)[0].bytes ? "" : "the output has other elements";
  }

  // Twice an operand is twice the product, to the bit.
  std::string Product() {
    const std::vector<size_t> inputs = Changeable("product");
    if (skipped_ || (*outputs_)[0].dtype != TENON_DT_FLOAT) return Skip();
    const auto twice = [](Tensor tensor) {
      for (size_t at = 0; at + sizeof(float) <= tensor.bytes.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
        value *= 2;
        std::memcpy(tensor.bytes.data() + at, &value, sizeof value);
      }
      return tensor;
    };
    const Tensor wanted = twice((*outputs_)[0]);
    for (const size_t i : inputs) {
      if (inputs_[i].dtype != TENON_DT_FLOAT) return Skip();
      Tensors changed = inputs_;
      changed[i] = twice(changed[i]);
      const auto outputs = Again(changed);
      if (!outputs) return "it fails on twice its operand";
      for (int64_t place = 0; place < wanted.count(); ++place)
        if (!Alike(wanted, (*outputs)[0], place, 8))
          return sdk::Concat("of twice input ", i, " ", Difference(wanted, (*outputs)[0], place));
    }
    return "";
  }

  std::string Reduces() {
    const std::vector<std::string>& names = said_.at("reduces");
    const auto found = arguments_.find(names[0]);
    if (found == arguments_.end() || found->second.empty()) return Skip();
    const size_t input = found->second[0];
    const Tensor& x = inputs_[input];
    std::vector<bool> gone(x.dims.size(), names.size() < 2);
    if (names.size() > 1) {
      if (!arguments_.contains(names[1])) return Skip();  // an attribute
      const Tensor& axes = inputs_[arguments_[names[1]][0]];
      for (int64_t i = 0; i < axes.count(); ++i) {
        int64_t axis = 0;
        const std::string bytes = BytesAt(axes, i);
        if (bytes.size() > sizeof(axis)) return Skip();
        std::memcpy(&axis, bytes.data(), bytes.size());
        const size_t unused = 8 * (sizeof(axis) - bytes.size());
        axis = static_cast<int64_t>(static_cast<uint64_t>(axis) << unused) >> unused;
        const auto rank = static_cast<int64_t>(x.dims.size());
        if (axis < -rank || axis >= rank) return sdk::Concat("it takes the axis ", axis, " of ", rank, " dims");
        gone[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
      }
    }
    const bool keeps = names.size() > 2 && attr_ && attr_(names[2]).value_or(0) != 0;
    Dims left;
    for (size_t d = 0; d < x.dims.size(); ++d)
      if (!gone[d] || keeps) left.push_back(gone[d] ? 1 : x.dims[d]);
    if ((*outputs_)[0].dims != left) return "the output's shape is not what is left of the input's";
    if (!IsPlain(x) || fixed_.contains(input) || !IsPlain((*outputs_)[0])) return Skip();
    // What is reduced to one element decides it.
    const int64_t place = AnyOf(CountOf(left));
    std::set<int64_t> own;
    for (int64_t i = 0; i < x.count(); ++i) {
      int64_t rest = i, at = 0, step = 1;
      for (size_t d = x.dims.size(); d-- > 0;) {
        const int64_t index = rest % x.dims[d];
        rest /= x.dims[d];
        if (gone[d]) continue;
        at += index * step;
        step *= x.dims[d];
      }
      if (at == place) own.insert(i);
    }
    Tensors changed = inputs_;
    changed[input] = Turned(x, own);
    const auto outputs = Again(changed);
    if (!outputs) return Skip();
    return Alike((*outputs_)[0], (*outputs)[0], place, 8) ? "" : Difference((*outputs_)[0], (*outputs)[0], place);
  }

  std::string Normalizes() {
    for (const size_t i : InputsOf("normalizes"))
      if (inputs_[i].dims != (*outputs_)[0].dims) return sdk::Concat("the output's shape is not that of input ", i);
    return "";
  }

  // The first of the rows give the first of the outputs' rows.
  std::string Rows() {
    const std::vector<size_t> inputs = Changeable("rows");
    if (skipped_ || inputs_[inputs[0]].dims.empty()) return Skip();
    const int64_t rows = inputs_[inputs[0]].dims[0], kept = (rows + 1) / 2;
    if (rows < 2) return Skip();
    const auto cut = [kept](const Tensor& tensor) {
      Dims dims = tensor.dims;
      dims[0] = kept;
      return Tensor(tensor.dtype, dims, Bytes::From(tensor.bytes.data(), BytesOf(tensor.dtype, dims)));
    };
    Tensors changed = inputs_;
    for (const size_t i : inputs) {
      if (changed[i].dims.empty() || changed[i].dims[0] != rows) return sdk::Concat("input ", i, " has other rows");
      changed[i] = cut(changed[i]);
    }
    const auto outputs = Again(changed);
    if (!outputs) return "it fails on the first of its rows";
    for (size_t k = 0; k < outputs->size(); ++k) {
      if (!IsPlain((*outputs_)[k])) continue;
      if ((*outputs_)[k].dims.empty() || (*outputs_)[k].dims[0] < kept)
        return sdk::Concat("output ", k, " has fewer rows");
      const Tensor wanted = cut((*outputs_)[k]);
      if ((*outputs)[k].dims != wanted.dims) return sdk::Concat("output ", k, " has other rows");
      for (int64_t place = 0; place < wanted.count(); ++place)
        if (!Alike(wanted, (*outputs)[k], place, 64, true))
          return sdk::Concat("output ", k, " ", Difference(wanted, (*outputs)[k], place));
    }
    return "";
  }

  // Of numbers that have half as many bits as float32 all that comes out has no more.
  std::string Exact() {
    bool any = false;
    Tensors changed = inputs_;
    for (size_t i = 0; i < changed.size(); ++i) {
      if (changed[i].dtype != TENON_DT_FLOAT) continue;
      if (fixed_.contains(i)) return Skip();
      changed[i] = Halved(changed[i]);
      any = true;
    }
    const auto outputs = any ? Again(changed) : std::nullopt;
    if (!outputs) return Skip();
    for (const Tensor& output : *outputs)
      if (output.dtype == TENON_DT_FLOAT && !(Halved(output).bytes == output.bytes))
        return "the output has more bits than the inputs";
    return "";
  }
  static Tensor Halved(Tensor tensor) {
    for (size_t at = 0; at + sizeof(float) <= tensor.bytes.size(); at += sizeof(float))
      tensor.bytes[at] = tensor.bytes[at + 1] = 0;
    return tensor;
  }

  std::string KeepsNan() { return Keeps(std::numeric_limits<float>::quiet_NaN()); }
  std::string KeepsZeroSign() { return Keeps(-0.0f); }
  std::string Keeps(float wanted) {
    const std::vector<size_t> inputs = Changeable("elementwise");
    const Tensor& first = (*outputs_)[0];
    if (skipped_ || first.dtype != TENON_DT_FLOAT || first.bytes.empty()) return Skip();
    for (const size_t i : inputs) {
      if (inputs_[i].dtype != TENON_DT_FLOAT) continue;
      const int64_t place = AnyOf(first.count());
      if (PlaceIn(inputs_[i].dims, first.dims, place) >= inputs_[i].count()) return "the inputs do not broadcast";
      Tensors changed = inputs_;
      std::memcpy(changed[i].bytes.data() +
                      static_cast<size_t>(PlaceIn(changed[i].dims, first.dims, place)) * sizeof(float),
                  &wanted, sizeof(wanted));
      const auto outputs = Again(changed);
      if (!outputs) return Skip();
      const double got = NumberAt((*outputs)[0], place).value_or(0);
      if (std::isnan(wanted) ? !std::isnan(got) : !(got == 0 && std::signbit(got)))
        return sdk::Concat("of ", wanted, " in input ", i, " it makes ", got);
    }
    return "";
  }

  // In 16 bits it gives what it gives of the same numbers in 32, but for as much as storing the results so takes.
  std::string FitsHalf() {
    if (!half_) return Skip();
    Tensors rounded = inputs_, halves = inputs_;
    const std::vector<size_t> elements = Says("normalizes") ? InputsOf("normalizes") : std::vector<size_t>();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool is_element = elements.empty() || std::find(elements.begin(), elements.end(), i) != elements.end();
      if (inputs_[i].dtype != TENON_DT_FLOAT || !is_element) continue;
      if (fixed_.contains(i)) return Skip();
      Tensor half(TENON_DT_BFLOAT16, inputs_[i].dims);
      for (int64_t place = 0; place < half.count(); ++place) {
        const sdk::Bfloat16 value(static_cast<float>(*NumberAt(inputs_[i], place)));
        const auto back = static_cast<float>(value);
        std::memcpy(half.bytes.data() + static_cast<size_t>(place) * sizeof(value), static_cast<const void*>(&value),
                    sizeof(value));
        std::memcpy(rounded[i].bytes.data() + static_cast<size_t>(place) * sizeof(back), &back, sizeof(back));
      }
      halves[i] = std::move(half);
    }
    const auto wanted = Again(rounded), got = half_(halves);
    if (!wanted || !got) return Skip();
    for (size_t k = 0; k < wanted->size() && k < got->size(); ++k) {
      if ((*got)[k].dtype != TENON_DT_BFLOAT16 || (*wanted)[k].dtype != TENON_DT_FLOAT) continue;
      const Tensor& want = (*wanted)[k];
      double largest = 0;
      for (int64_t place = 0; place < want.count(); ++place)
        if (const double each = std::abs(*NumberAt(want, place)); std::isfinite(each))
          largest = std::max(largest, each);
      for (int64_t place = 0; place < want.count(); ++place) {
        const double exact = *NumberAt(want, place), is = *NumberAt((*got)[k], place);
        constexpr double kUnits = 2, kLargestFinite = 3e38;
        if (std::isnan(exact) ? std::isnan(is) : exact == is || std::abs(exact) > kLargestFinite) continue;
        if (!(std::abs(exact - is) <= kUnits * UnitOf(TENON_DT_BFLOAT16) * std::max(largest, 0x1p-126)))
          return sdk::Concat("at element ", place, ": in 16 bits it gives ", is, " for ", exact);
      }
    }
    return "";
  }

  const std::map<std::string, std::vector<std::string>> said_;
  const std::function<std::optional<double>(const std::string&)> attr_;
  const Tensors inputs_;
  const Run run_, half_;
  const std::set<size_t> fixed_;
  std::mt19937_64 random_;
  std::map<std::string, std::vector<size_t>> arguments_;
  std::optional<Tensors> outputs_;
  bool skipped_ = false;
};

inline const PropertyTrial::Test PropertyTrial::kTests[12] = {
    {"elementwise", &PropertyTrial::ElementWise}, {"moves", &PropertyTrial::Moves},
    {"computes", &PropertyTrial::Computes},
    {"view", &PropertyTrial::Views},              {"product", &PropertyTrial::Product},
    {"reduces", &PropertyTrial::Reduces},         {"normalizes", &PropertyTrial::Normalizes},
    {"rows", &PropertyTrial::Rows},               {"exact", &PropertyTrial::Exact},
    {"keeps_nan", &PropertyTrial::KeepsNan},      {"keeps_zero_sign", &PropertyTrial::KeepsZeroSign},
    {"fits_half", &PropertyTrial::FitsHalf}};

}  // namespace tenon::testing

#endif  // TENON_TESTING_PROPERTY_TRIAL_H_
