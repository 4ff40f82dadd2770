// SPDX-License-Identifier: Apache-2.0
// What ops say of themselves ("Properties" in tenon/op.h), against what their kernels do: each op that says something
// is run on the inputs of its cases, and again on inputs that are changed where the property says that it does not
// matter, or as the property says how it does. Of each op and dtype a few cases; all of them where the whole is asked
// for.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/whole.h"
#include "tests/golden/case_graph.h"
#include "tests/golden/compare.h"
#include "tests/golden/replay.h"

namespace tenon::golden::properties_test {
namespace {

using host::DType;
using host::Feed;
using host::Name;
using host::Result;
using host::Runtime;
using host::Session;
using host::Shape;
using host::Tensor;

using Tensors = std::vector<Tensor>;
using Dims = std::vector<int64_t>;

int64_t Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}
size_t SizeOf(const Tensor& tensor) {
  const int64_t count = Count(tensor.shape().dims());
  return count == 0 ? 0 : tensor.view()->byte_size / static_cast<size_t>(count);
}
bool IsPlain(const Tensor& tensor) {
  return tensor && tensor.dtype() != DType::kString && tensor.dtype() != DType::kVariant &&
         tensor.dtype() != DType::kResource && tensor.view()->byte_size > 0;
}
std::string Bytes(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.view()->dl.data) + tensor.view()->dl.byte_offset,
                     tensor.view()->byte_size);
}
Tensor WithBytes(const Tensor& like, const std::string& bytes, const Dims& dims) {
  return *Tensor::FromBytes(like.dtype(), Shape(dims), bytes.data(), bytes.size());
}
Tensor WithBytes(const Tensor& like, const std::string& bytes) { return WithBytes(like, bytes, like.shape().dims()); }

// A node of one op, fed with whatever is wanted.
class Op {
 public:
  Op(const Runtime& runtime, const Json& one) {
    auto made = MakeCaseGraph(runtime, one, InputsAs::kBlindFeeds);
    if (!made.ok() || !made->graph.status().ok() || !made->readers.empty()) return;
    made_.emplace(*std::move(made));
    auto session = Session::Create(runtime, made_->graph, {});
    if (session.ok()) session_.emplace(*std::move(session));
  }
  bool ok() const { return session_.has_value(); }
  const Tensors& inputs() const { return made_->values; }
  // Which input a feed is; constants of the case cannot be changed.
  bool IsFed(size_t input) const {
    const std::string name = "input" + std::to_string(input);
    return std::ranges::any_of(made_->feeds, [&](const Feed& feed) { return feed.name.text() == name; });
  }
  std::optional<Tensors> Run(const Tensors& inputs) const {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (IsFed(i)) feeds.push_back({"input" + std::to_string(i), inputs[i]});
    const auto outputs = made_->node.outputs();
    auto values = session_->Run(feeds, std::vector<Name>(outputs.begin(), outputs.end()));
    if (!values.ok()) return std::nullopt;
    return *std::move(values);
  }

 private:
  std::optional<CaseGraph> made_;
  std::optional<Session> session_;
};

// What a definition says, with the numbers of inputs for their names.
struct Said {
  std::map<std::string, std::vector<std::string>> terms;
  bool Has(const std::string& term) const { return terms.contains(term); }
};
Said Parse(std::string_view text) {
  Said said;
  std::string word, names;
  bool inside = false;
  const auto end = [&] {
    std::vector<std::string>& of = said.terms[word];
    for (size_t at = 0; at < names.size();) {
      const size_t comma = std::min(names.find(',', at), names.size());
      of.push_back(names.substr(at, comma - at));
      at = comma + 1;
    }
    word.clear();
    names.clear();
  };
  for (const char letter : text) {
    if (letter == ' ') continue;
    if (letter == '(' || letter == ')') inside = letter == '(';
    else if (inside) names += letter;
    else if (letter != ',') word += letter;
    else if (!word.empty()) end();
  }
  if (!word.empty()) end();
  return said;
}

// One case of an op: its node, what it gave, and the tries.
class Trial {
 public:
  Trial(const Runtime& runtime, const tenon_op_info& info, const Json& one, uint64_t seed)
      : op_(runtime, one), said_(Parse(host::Text(info.properties))), one_(one), random_(seed) {
    if (!op_.ok()) return;
    Arguments(info);
    outputs_ = op_.Run(op_.inputs());
  }
  bool ok() const { return outputs_.has_value() && !outputs_->empty(); }

  // Empty, or what is not as the op says. tried: each property that was put to the test.
  std::string Try(std::set<std::string>* tried) {
    struct Test {
      const char* term;
      std::string (Trial::*test)();
    };
    const Test tests[] = {{"elementwise", &Trial::ElementWise}, {"moves", &Trial::Moves},
                          {"view", &Trial::Views},              {"product", &Trial::Product},
                          {"reduces", &Trial::Reduces},         {"normalizes", &Trial::Normalizes},
                          {"rows", &Trial::Rows},               {"exact", &Trial::Exact},
                          {"keeps_nan", &Trial::KeepsNan},      {"keeps_zero_sign", &Trial::KeepsZeroSign}};
    for (const Test& test : tests) {
      if (!said_.Has(test.term)) continue;
      skipped_ = false;
      const std::string wrong = (this->*test.test)();
      if (!wrong.empty()) return std::string("'") + test.term + "': " + wrong;
      if (!skipped_) tried->insert(test.term);
    }
    return "";
  }

 private:
  // Inputs by the names of the op's arguments, as many as the case's attributes say.
  void Arguments(const tenon_op_info& info) {
    size_t at = 0;
    const std::string_view text = host::Text(info.inputs);
    for (size_t from = 0; from < text.size();) {
      const size_t comma = std::min(text.find(',', from), text.size());
      const std::string_view argument = text.substr(from, comma - from);
      const size_t colon = argument.find(':');
      std::string name(argument.substr(0, colon));
      name.erase(0, name.find_first_not_of(' '));
      size_t count = 1;
      if (const size_t star = argument.find('*'); star != argument.npos) {
        std::string number(argument.substr(colon + 1, star - colon - 1));
        std::erase(number, ' ');
        count = one_["attrs"].contains(number) ? one_["attrs"][number]["int"].get<size_t>() : op_.inputs().size();
      }
      for (size_t i = 0; i < count && at < op_.inputs().size(); ++i) arguments_[name].push_back(at++);
      from = comma + 1;
    }
  }
  std::vector<size_t> InputsOf(const std::string& term) const {
    const std::vector<std::string>& names = said_.terms.at(term);
    std::vector<size_t> inputs;
    for (size_t i = 0; i < op_.inputs().size() && names.empty(); ++i) inputs.push_back(i);
    for (const std::string& name : names)
      if (const auto found = arguments_.find(name); found != arguments_.end())
        inputs.insert(inputs.end(), found->second.begin(), found->second.end());
    return inputs;
  }
  std::vector<size_t> Changeable(const std::string& term) {
    std::vector<size_t> inputs = InputsOf(term);
    std::erase_if(inputs, [this](size_t i) { return !IsPlain(op_.inputs()[i]) || !op_.IsFed(i); });
    if (inputs.empty()) skipped_ = true;
    return inputs;
  }
  std::string Skip() {
    skipped_ = true;
    return "";
  }

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
    const size_t size = SizeOf(input);
    std::string bytes = Bytes(input);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < Count(input.shape().dims()); ++i)
      if (!keep.contains(i)) places.push_back(i);
    const std::string old = bytes;
    for (const int64_t place : places)
      std::memcpy(bytes.data() + static_cast<size_t>(place) * size,
                  old.data() + static_cast<size_t>(AnyOf(Count(input.shape().dims()))) * size, size);
    return WithBytes(input, bytes);
  }
  int64_t AnyOf(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random_); }

  std::string ElementWise() {
    const std::vector<size_t> inputs = Changeable("elementwise");
    const Tensor& first = (*outputs_)[0];
    if (skipped_ || !IsPlain(first)) return Skip();
    const Dims dims = first.shape().dims();
    for (const size_t i : inputs) {
      const Dims own = op_.inputs()[i].shape().dims();
      if (!said_.Has("broadcasts") && own != dims) return "input " + std::to_string(i) + " has another shape";
      if (own.size() > dims.size()) return "the output has fewer dims than input " + std::to_string(i);
    }
    bool ran = false;
    for (int round = 0; round < 3; ++round) {
      const int64_t place = AnyOf(Count(dims));
      Tensors changed = op_.inputs();
      for (const size_t i : inputs)
        changed[i] = Turned(changed[i], {PlaceIn(changed[i].shape().dims(), dims, place)});
      const auto outputs = op_.Run(changed);
      if (!outputs) continue;  // other elements may be refused together
      ran = true;
      for (size_t k = 0; k < outputs->size(); ++k) {
        if ((*outputs)[k].shape().dims() != dims) return "output " + std::to_string(k) + " has another shape";
        if (const std::string wrong = SameAt((*outputs_)[k], (*outputs)[k], place); !wrong.empty()) return wrong;
      }
    }
    return ran ? "" : Skip();
  }
  static std::string SameAt(const Tensor& want, const Tensor& got, int64_t place) {
    const size_t size = SizeOf(want);
    const auto at = [&](const Tensor& tensor) {
      return WithBytes(tensor, Bytes(tensor).substr(static_cast<size_t>(place) * size, size), {});
    };
    // As many units as a kernel's vectors and its rest may differ by.
    const std::string difference = Compare(at(want), at(got), {.units = 8});
    return difference.empty() ? "" : "at element " + std::to_string(place) + ": " + difference;
  }

  std::string Moves() {
    const std::vector<size_t> inputs = Changeable("moves");
    if (skipped_) return "";
    Tensors changed = op_.inputs();
    for (const size_t i : inputs) {
      std::string bytes = Bytes(changed[i]);
      for (size_t at = 0; at < bytes.size(); at += SizeOf(changed[i])) bytes[at] ^= 1;
      changed[i] = WithBytes(changed[i], bytes);
    }
    const auto outputs = op_.Run(changed);
    if (!outputs) return "it fails where each element is another";
    for (size_t k = 0; k < outputs->size(); ++k) {
      const Tensor &before = (*outputs_)[k], &after = (*outputs)[k];
      if (!IsPlain(before)) continue;
      if (before.shape() != after.shape()) return "the shape depends on elements";
      const std::string old = Bytes(before), now = Bytes(after);
      for (size_t at = 0; at < old.size(); at += SizeOf(before)) {
        std::string moved = old.substr(at, SizeOf(before));
        const std::string is = now.substr(at, SizeOf(before));
        if (is == moved) continue;  // a constant
        moved[0] ^= 1;
        if (is != moved) return "byte " + std::to_string(at) + " of output " + std::to_string(k) + " is of no element";
      }
    }
    return "";
  }

  std::string Views() {
    const size_t input = InputsOf("view")[0];
    if (!IsPlain(op_.inputs()[input]) || !IsPlain((*outputs_)[0])) return Skip();
    return Bytes(op_.inputs()[input]) == Bytes((*outputs_)[0]) ? "" : "the output has other elements";
  }

  // Twice an operand is twice the product, to the bit.
  std::string Product() {
    const std::vector<size_t> inputs = Changeable("product");
    if (skipped_ || (*outputs_)[0].dtype() != DType::kFloat) return Skip();
    for (const size_t i : inputs) {
      if (op_.inputs()[i].dtype() != DType::kFloat) return Skip();
      Tensors changed = op_.inputs();
      std::vector<float> values(changed[i].data<float>().begin(), changed[i].data<float>().end());
      for (float& value : values) value *= 2;
      changed[i] = *Tensor::From(values, changed[i].shape());
      const auto outputs = op_.Run(changed);
      if (!outputs) return "it fails on twice its operand";
      std::vector<float> twice((*outputs_)[0].data<float>().begin(), (*outputs_)[0].data<float>().end());
      for (float& value : twice) value *= 2;
      const std::string difference = Compare(*Tensor::From(twice, (*outputs_)[0].shape()), (*outputs)[0], {});
      if (!difference.empty()) return "of twice input " + std::to_string(i) + ": " + difference;
    }
    return "";
  }

  std::string Reduces() {
    const std::vector<std::string>& names = said_.terms.at("reduces");
    const size_t input = arguments_[names[0]][0];
    const Tensor& x = op_.inputs()[input];
    const Dims dims = x.shape().dims();
    std::vector<bool> gone(dims.size(), names.size() < 2);
    if (names.size() > 1) {
      const Tensor& axes = op_.inputs()[arguments_[names[1]][0]];
      for (int64_t i = 0; i < Count(axes.shape().dims()); ++i) {
        const auto at = static_cast<size_t>(i);
        const int64_t axis = axes.dtype() == DType::kInt64   ? axes.data<int64_t>()[at]
                             : axes.dtype() == DType::kInt16 ? axes.data<int16_t>()[at]
                                                             : axes.data<int32_t>()[at];
        gone[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)] = true;
      }
    }
    const bool keeps =
        names.size() > 2 && one_["attrs"].contains(names[2]) && one_["attrs"][names[2]]["bool"].get<bool>();
    Dims left;
    for (size_t d = 0; d < dims.size(); ++d)
      if (!gone[d] || keeps) left.push_back(gone[d] ? 1 : dims[d]);
    if ((*outputs_)[0].shape().dims() != left) return "the output's shape is not what is left of the input's";
    if (!IsPlain(x) || !op_.IsFed(input) || !IsPlain((*outputs_)[0])) return Skip();
    // What is reduced to one element decides it.
    const int64_t place = AnyOf(Count(left));
    std::set<int64_t> own;
    for (int64_t i = 0; i < Count(dims); ++i) {
      int64_t rest = i, at = 0, step = 1;
      for (size_t d = dims.size(); d-- > 0;) {
        const int64_t index = rest % dims[d];
        rest /= dims[d];
        if (gone[d]) continue;
        at += index * step;
        step *= dims[d];
      }
      if (at == place) own.insert(i);
    }
    Tensors changed = op_.inputs();
    changed[input] = Turned(x, own);
    const auto outputs = op_.Run(changed);
    return outputs ? SameAt((*outputs_)[0], (*outputs)[0], place) : Skip();
  }

  std::string Normalizes() {
    const Tensor& x = op_.inputs()[InputsOf("normalizes")[0]];
    return x.shape() == (*outputs_)[0].shape() ? "" : "the output's shape is not the input's";
  }

  // The first of the rows give the first of the outputs' rows.
  std::string Rows() {
    const std::vector<size_t> inputs = Changeable("rows");
    if (skipped_ || op_.inputs()[inputs[0]].shape().rank() < 1) return Skip();
    const int64_t rows = op_.inputs()[inputs[0]].shape().dims()[0], kept = (rows + 1) / 2;
    if (rows < 2) return Skip();
    const auto cut = [kept](const Tensor& tensor) {
      Dims dims = tensor.shape().dims();
      dims[0] = kept;
      return WithBytes(tensor, Bytes(tensor).substr(0, static_cast<size_t>(Count(dims)) * SizeOf(tensor)), dims);
    };
    Tensors changed = op_.inputs();
    for (const size_t i : inputs) changed[i] = cut(changed[i]);
    const auto outputs = op_.Run(changed);
    if (!outputs) return "it fails on the first of its rows";
    for (size_t k = 0; k < outputs->size(); ++k) {
      if (!IsPlain((*outputs_)[k])) continue;
      const std::string difference = Compare(cut((*outputs_)[k]), (*outputs)[k], {.units = 64, .of_largest = true});
      if (!difference.empty()) return "output " + std::to_string(k) + ": " + difference;
    }
    return "";
  }

  // Of numbers that have half as many bits as float32 all that comes out has no more.
  std::string Exact() {
    bool any = false;
    Tensors changed = op_.inputs();
    for (size_t i = 0; i < changed.size(); ++i) {
      if (!changed[i] || changed[i].dtype() != DType::kFloat) continue;
      if (!op_.IsFed(i)) return Skip();
      changed[i] = WithBytes(changed[i], Halved(Bytes(changed[i])));
      any = true;
    }
    const auto outputs = any ? op_.Run(changed) : std::nullopt;
    if (!outputs) return Skip();
    for (const Tensor& output : *outputs) {
      if (!output || output.dtype() != DType::kFloat) continue;
      if (Halved(Bytes(output)) != Bytes(output)) return "the output has more bits than the inputs";
    }
    return "";
  }
  static std::string Halved(std::string bytes) {
    for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) bytes[at] = bytes[at + 1] = 0;
    return bytes;
  }

  std::string KeepsNan() { return Keeps(std::numeric_limits<float>::quiet_NaN()); }
  std::string KeepsZeroSign() { return Keeps(-0.0f); }
  std::string Keeps(float wanted) {
    const std::vector<size_t> inputs = Changeable("elementwise");
    if (skipped_ || (*outputs_)[0].dtype() != DType::kFloat || (*outputs_)[0].view()->byte_size == 0) return Skip();
    const Dims dims = (*outputs_)[0].shape().dims();
    for (const size_t i : inputs) {
      if (op_.inputs()[i].dtype() != DType::kFloat) continue;
      const int64_t place = AnyOf(Count(dims));
      Tensors changed = op_.inputs();
      std::vector<float> values(changed[i].data<float>().begin(), changed[i].data<float>().end());
      values[static_cast<size_t>(PlaceIn(changed[i].shape().dims(), dims, place))] = wanted;
      changed[i] = *Tensor::From(values, changed[i].shape());
      const auto outputs = op_.Run(changed);
      if (!outputs) return Skip();
      const float got = (*outputs)[0].data<float>()[static_cast<size_t>(place)];
      if (std::isnan(wanted) ? !std::isnan(got) : !(got == 0 && std::signbit(got)))
        return "of " + std::to_string(wanted) + " in input " + std::to_string(i) + " it makes " + std::to_string(got);
    }
    return "";
  }

  Op op_;
  const Said said_;
  const Json& one_;
  std::mt19937_64 random_;
  std::map<std::string, std::vector<size_t>> arguments_;
  std::optional<Tensors> outputs_;
  bool skipped_ = false;
};

// Cases of one op whose inputs are of the same types.
std::string KindOf(const Json& one) {
  std::string kind = one["op"].get<std::string>();
  for (const Json& input : one["in"]) kind += input.is_array() ? " " + input[0].get<std::string>() : " ?";
  return kind;
}

TEST(Properties, AreThoseOfTheKernels) {
  auto runtime = MakeRuntime(Kernels::kAll);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  runtime->OpenAll();
  std::map<std::string, tenon_op_info, std::less<>> ops;
  for (const tenon_op_info& op : runtime->Ops())
    if (op.properties.size > 0) ops.emplace(host::Text(op.name), op);
  const size_t most = fakes::IsWhole() ? 1000 : 8;
  std::map<std::string, size_t> of_kind;
  std::map<std::string, std::set<std::string>> tried;  // by op
  size_t trials = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_TEST_SOURCE_DIR "/tests/golden/cases")) {
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);) {
      const Json one = Json::parse(line);
      if (one.contains("graph") || one.contains("error") || one.contains("before") || one.contains("vars")) continue;
      const auto op = ops.find(one["op"].get<std::string>());
      if (op == ops.end() || of_kind[KindOf(one)]++ >= most) continue;
      Trial trial(*runtime, op->second, one, ++trials);
      if (!trial.ok()) continue;
      const std::string wrong = trial.Try(&tried[op->first]);
      EXPECT_EQ(wrong, "") << op->first << " says " << host::Text(op->second.properties) << ", in "
                           << entry.path().stem() << ": " << Describe(one);
    }
  }
  // Nearly all that is said has been put to the test.
  size_t said = 0, held = 0;
  std::string untried;
  const std::set<std::string> tests = {"elementwise", "moves", "view", "product", "reduces", "normalizes",
                                       "rows",        "exact", "keeps_nan", "keeps_zero_sign"};
  for (const auto& [name, op] : ops) {
    for (const auto& [term, names] : Parse(host::Text(op.properties)).terms) {
      if (!tests.contains(term)) continue;
      ++said;
      if (tried[name].contains(term)) ++held;
      else untried += " " + name + ":" + term;
    }
  }
  std::printf("%zu of %zu properties of %zu ops tried; not:%s\n", held, said, ops.size(), untried.c_str());
  EXPECT_GE(held * 10, said * 9);
}

// The measure itself.
TEST(Properties, AreReadWithTheirNames) {
  const Said said = Parse("elementwise(t, e), exact");
  EXPECT_EQ(said.terms.at("elementwise"), (std::vector<std::string>{"t", "e"}));
  EXPECT_TRUE(said.Has("exact"));
  EXPECT_FALSE(said.Has("t"));
}

}  // namespace
}  // namespace tenon::golden::properties_test
