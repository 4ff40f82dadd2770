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
#include "tenon/testing/tensor.h"

namespace tenon::testing {

// The terms of a definition's properties, each with the names in its parentheses.
inline std::map<std::string, std::vector<std::string>> PropertyTerms(std::string_view text) {
  std::map<std::string, std::vector<std::string>> terms;
  std::string word, name;
  std::vector<std::string> names;
  bool inside = false;
  const auto end_name = [&] {
    if (!name.empty()) names.push_back(std::exchange(name, ""));
  };
  const auto end_term = [&] {
    if (!word.empty()) terms.emplace(std::exchange(word, ""), std::exchange(names, {}));
  };
  for (const char letter : text) {
    if (letter == '(' || letter == ')') {
      end_name();
      inside = letter == '(';
    } else if (letter == ',') {
      inside ? end_name() : end_term();
    } else if (letter != ' ') {
      (inside ? name : word) += letter;
    }
  }
  end_term();
  return terms;
}

struct PropertyOp {
  std::string_view inputs, properties;  // as the definition has them
  // The node's attribute, an int or a bool: how long a list is, whether dims are kept. nullopt: it has none.
  std::function<std::optional<int64_t>(const std::string& name)> attr = {};
};

class PropertyTrial {
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
  using Dims = Dimensions;
  struct Test {
    const char* term;
    std::string (PropertyTrial::*test)();
  };
  static const Test kTests[11];

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
  static bool IsPlain(const Tensor& tensor) {
    return tensor.dtype != TENON_DT_INVALID && tensor.dtype != TENON_DT_STRING && tensor.dtype != TENON_DT_VARIANT &&
           tensor.dtype != TENON_DT_RESOURCE && sdk::PackedBits(tensor.dtype) == 0 && !tensor.bytes.empty();
  }
  static size_t SizeOf(const Tensor& tensor) { return static_cast<size_t>(CellSize(tensor.dtype)); }
  // Of no place of the tensor's there are none.
  static std::string BytesAt(const Tensor& tensor, int64_t place) {
    if (place < 0 || place >= tensor.count()) return "";
    return {tensor.bytes.data() + static_cast<size_t>(place) * SizeOf(tensor), SizeOf(tensor)};
  }
  int64_t AnyOf(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random_); }

  // ---- What elements say ----

  // The element as a real number; nothing where it is none (whole numbers that a double does not hold, complex ones).
  static std::optional<double> NumberAt(const Tensor& tensor, int64_t place) {
    const auto as = [&]<class T>(T value) {
      std::memcpy(&value, BytesAt(tensor, place).data(), sizeof(value));
      return static_cast<double>(static_cast<float>(value));
    };
    if (place < 0 || place >= tensor.count()) return std::nullopt;
    switch (tensor.dtype) {
      case TENON_DT_FLOAT: return as(float{});
      case TENON_DT_HALF: return as(sdk::Half{});
      case TENON_DT_BFLOAT16: return as(sdk::Bfloat16{});
      case TENON_DT_DOUBLE: {
        double value = 0;
        std::memcpy(&value, BytesAt(tensor, place).data(), sizeof(value));
        return value;
      }
      default: return std::nullopt;
    }
  }
  static double UnitOf(uint32_t dtype) {
    switch (dtype) {
      case TENON_DT_DOUBLE: return 0x1p-52;
      case TENON_DT_HALF: return 0x1p-10;
      case TENON_DT_BFLOAT16: return 0x1p-7;
      default: return 0x1p-23;
    }
  }
  static std::string TextOf(const Tensor& tensor, int64_t place) {
    if (const auto number = NumberAt(tensor, place)) return sdk::Concat(*number);
    std::string text;
    for (const char byte : BytesAt(tensor, place))
      text += "0123456789abcdef"[byte >> 4 & 15], text += "0123456789abcdef"[byte & 15];
    return text;
  }
  // Whether they are one but for as many units of the last place, of the element or of the largest one of the tensor.
  static bool Alike(const Tensor& want, const Tensor& got, int64_t place, double units, bool of_largest = false) {
    if (want.dtype != got.dtype) return false;
    if (BytesAt(want, place) == BytesAt(got, place)) return true;
    const bool is_complex = want.dtype == TENON_DT_COMPLEX64 || want.dtype == TENON_DT_COMPLEX128;
    if (is_complex) {
      const uint32_t part = want.dtype == TENON_DT_COMPLEX64 ? TENON_DT_FLOAT : TENON_DT_DOUBLE;
      const Dims twice = {2 * want.count()};
      const Tensor a(part, twice, want.bytes), b(part, twice, got.bytes);
      return Alike(a, b, 2 * place, units, true) && Alike(a, b, 2 * place + 1, units, true);
    }
    const auto a = NumberAt(want, place), b = NumberAt(got, place);
    if (!a || !b) return false;
    if (std::isnan(*a) || std::isnan(*b)) return std::isnan(*a) == std::isnan(*b);
    if (*a == *b) return true;
    double size = std::abs(*a);
    for (int64_t i = 0; of_largest && i < want.count(); ++i)
      if (const auto each = NumberAt(want, i); each && std::isfinite(*each)) size = std::max(size, std::abs(*each));
    constexpr double kLeast = 0x1p-126;  // what is smaller may be flushed
    return std::abs(*a - *b) <= units * UnitOf(want.dtype) * std::max(size, kLeast);
  }
  static std::string Difference(const Tensor& want, const Tensor& got, int64_t place) {
    return sdk::Concat("at element ", place, ": ", TextOf(got, place), " was ", TextOf(want, place));
  }

  // ---- Inputs that are others ----

  // The place of an output's element in an input that broadcasts to it.
  static int64_t PlaceIn(const Dims& input, const Dims& output, int64_t place) {
    int64_t at = 0, step = 1;
    for (size_t d = 0; d < output.size(); ++d) {
      const int64_t size = output[output.size() - 1 - d], index = place % size;
      place /= size;
      if (d >= input.size()) continue;
      const int64_t own = input[input.size() - 1 - d];
      at += (own == 1 ? 0 : index) * step;
      step *= own;
    }
    return at;
  }
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
  const std::function<std::optional<int64_t>(const std::string&)> attr_;
  const Tensors inputs_;
  const Run run_, half_;
  const std::set<size_t> fixed_;
  std::mt19937_64 random_;
  std::map<std::string, std::vector<size_t>> arguments_;
  std::optional<Tensors> outputs_;
  bool skipped_ = false;
};

inline const PropertyTrial::Test PropertyTrial::kTests[11] = {
    {"elementwise", &PropertyTrial::ElementWise}, {"moves", &PropertyTrial::Moves},
    {"view", &PropertyTrial::Views},              {"product", &PropertyTrial::Product},
    {"reduces", &PropertyTrial::Reduces},         {"normalizes", &PropertyTrial::Normalizes},
    {"rows", &PropertyTrial::Rows},               {"exact", &PropertyTrial::Exact},
    {"keeps_nan", &PropertyTrial::KeepsNan},      {"keeps_zero_sign", &PropertyTrial::KeepsZeroSign},
    {"fits_half", &PropertyTrial::FitsHalf}};

}  // namespace tenon::testing

#endif  // TENON_TESTING_PROPERTY_TRIAL_H_
