// SPDX-License-Identifier: Apache-2.0
// One case of the gradient check: an op, what goes into it, and the comparison with central differences.
//
// An input is varied (its gradient is checked) or given. The op is built into a graph of placeholders whose shapes are
// known, known in rank alone, or not known at all, so that a gradient that looks at shapes must also find them in a
// step. What is compared is the gradient of sum(w * y) over all outputs y of a floating type, with random w.
#ifndef TENON_TESTS_ENGINE_GRADIENT_CASE_H_
#define TENON_TESTS_ENGINE_GRADIENT_CASE_H_

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {

// An input of a case. Values are kept as doubles, whatever the type is.
struct Input {
  DType dtype = DType::kDouble;
  Shape shape;
  std::vector<double> values;  // empty: drawn from [low, high]
  bool varied = false;
  bool constant = false;  // a constant of the graph even where shapes are unknown: the op needs it
  double low = -2, high = 2;
  bool rows_sum_to_one = false;
};

inline Input X(const Shape& shape, double low = -2, double high = 2) {
  Input input;
  input.shape = shape;
  input.varied = true;
  input.low = low;
  input.high = high;
  return input;
}
inline Input XAt(const Shape& shape, std::vector<double> values) {
  Input input = X(shape);
  input.values = std::move(values);
  return input;
}
inline Input Distribution(const Shape& shape) {
  Input input = X(shape, 0.1, 1);
  input.rows_sum_to_one = true;
  return input;
}
inline Input Fixed(const Shape& shape, std::vector<double> values, DType dtype = DType::kDouble) {
  Input input;
  input.dtype = dtype;
  input.shape = shape;
  input.values = std::move(values);
  return input;
}
inline Input Ints(const Shape& shape, std::vector<double> values) {
  return Fixed(shape, std::move(values), DType::kInt32);
}
inline Input Longs(const Shape& shape, std::vector<double> values) {
  return Fixed(shape, std::move(values), DType::kInt64);
}
inline Input List(const std::vector<double>& values) { return Ints({static_cast<int64_t>(values.size())}, values); }
inline Input LongList(const std::vector<double>& values) {
  return Longs({static_cast<int64_t>(values.size())}, values);
}
inline Input One(double value) { return Ints({}, {value}); }
inline Input Bools(const Shape& shape, std::vector<double> values) {
  return Fixed(shape, std::move(values), DType::kBool);
}
inline Input Constant(Input input) {
  input.constant = true;
  return input;
}

struct Case {
  std::string op;
  std::vector<Input> inputs;
  Attrs attrs = {};
  bool second_order = true;  // also the gradient of the gradient
  double step = 1e-5;        // of the central differences
  double tolerance = 2e-6;   // of a gradient of size 1
};

// How much of the shapes is known when the gradient is built.
enum class Knowledge { kShape, kRank, kNothing };

inline std::string NameOf(Knowledge knowledge) {
  return knowledge == Knowledge::kShape  ? "known shapes"
         : knowledge == Knowledge::kRank ? "known ranks"
                                         : "unknown ranks";
}

// Builds one case and compares; why() says what is wrong, and is empty when nothing is.
class GradientCheck {
 public:
  GradientCheck(const Case& test, size_t number, Knowledge knowledge)
      : case_(test), random_(static_cast<uint32_t>(number) * 7919 + 17), knowledge_(knowledge), graph_(TheRuntime()) {
    for (Input& input : case_.inputs) Draw(input);
  }

  bool Run(bool second_order) {
    return Build() && Weigh() && AddGradients(second_order) && Compare();
  }
  const std::string& why() const { return why_; }
  // Whether some element of some gradient was not 0.
  bool saw_slope() const { return saw_slope_; }

 private:
  bool Fail(const std::string& why) {
    why_ = why + " (" + NameOf(knowledge_) + ")";
    return false;
  }
  bool Fail(const Status& status) { return Fail(status.message()); }

  double Uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  void Draw(Input& input) {
    const auto count = static_cast<size_t>(input.shape.element_count());
    if (input.values.empty())
      for (size_t i = 0; i < count; ++i) input.values.push_back(Uniform(input.low, input.high));
    if (!input.rows_sum_to_one) return;
    const auto row = static_cast<size_t>(input.shape.dims().back());
    for (size_t begin = 0; begin < count; begin += row) {
      double sum = 0;
      for (size_t i = begin; i < begin + row; ++i) sum += input.values[i];
      for (size_t i = begin; i < begin + row; ++i) input.values[i] /= sum;
    }
  }
  Shape Known(const Shape& shape) const {
    if (knowledge_ == Knowledge::kShape) return shape;
    if (knowledge_ == Knowledge::kNothing) return Shape::Unknown();
    return Shape(std::vector<int64_t>(shape.dims().size(), -1));
  }
  Output AddFeed(const std::string& name, const Tensor& value) {
    const Output placeholder = graph_.Placeholder(name, value.dtype(), Known(value.shape()));
    feeds_.insert_or_assign(placeholder.name(), value);
    return placeholder;
  }

  bool Build() {
    std::vector<Output> inputs;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const Input& input = case_.inputs[i];
      const Tensor value = TensorOf(input.dtype, input.shape, input.values);
      const bool constant = !input.varied && (input.constant || knowledge_ == Knowledge::kShape);
      inputs.push_back(constant ? graph_.Const(View(value)) : AddFeed("x" + std::to_string(i), value));
      if (input.varied) {
        xs_.push_back(inputs.back());
        x_inputs_.push_back(i);
      }
    }
    const Operation node = graph_.AddNode(case_.op, inputs, case_.attrs);
    if (!graph_.status().ok()) return Fail(graph_.status());
    for (const Output& output : node.outputs())
      if (output.dtype() == DType::kDouble || output.dtype() == DType::kFloat) ys_.push_back(output);
    return true;
  }

  std::optional<std::vector<Tensor>> Fetch(const std::vector<Output>& outputs) {
    if (!session_.has_value()) {
      auto session = Session::Create(TheRuntime(), graph_);
      if (!session.ok()) {
        Fail(session.status());
        return std::nullopt;
      }
      session_.emplace(std::move(*session));
    }
    if (Status extended = session_->Extend(graph_); !extended.ok()) {
      Fail(extended);
      return std::nullopt;
    }
    std::vector<host::Feed> feeds;
    for (const auto& [name, value] : feeds_) feeds.push_back({name, value});
    auto values = session_->Run(feeds, std::vector<Name>(outputs.begin(), outputs.end()));
    if (!values.ok()) {
      Fail(values.status());
      return std::nullopt;
    }
    return std::move(*values);
  }

  // Random weights in the outputs' shapes.
  bool Weigh() {
    const auto values = Fetch(ys_);
    if (!values.has_value()) return false;
    for (size_t i = 0; i < values->size(); ++i) weights_.push_back(NewWeights("w" + std::to_string(i), (*values)[i]));
    return true;
  }
  Output NewWeights(const std::string& name, const Tensor& like) {
    std::vector<double> weights(static_cast<size_t>(like.element_count()));
    for (double& weight : weights) weight = Uniform(0.5, 1.5) * (random_() % 2 == 0 ? 1 : -1);
    return AddFeed(name, TensorOf(like.dtype(), like.shape(), weights));
  }

  // Dense gradients of the weighted sum; with second_order those of the gradients' own weighted sum.
  bool AddGradients(bool second_order) {
    gradients_ = graph_.Gradients(ys_, xs_, weights_);
    if (!graph_.status().ok()) return Fail(graph_.status());
    if (!second_order) return true;
    std::vector<Output> firsts, first_weights;
    for (const Gradient& gradient : gradients_)
      if (gradient.kind == Gradient::Kind::kDense) firsts.push_back(gradient.dense);
    if (firsts.empty()) {  // slices or zeros: nothing that a second gradient could flow through
      xs_.clear();
      return true;
    }
    const auto values = Fetch(firsts);
    if (!values.has_value()) return false;
    for (size_t i = 0; i < firsts.size(); ++i)
      first_weights.push_back(NewWeights("u" + std::to_string(i), (*values)[i]));
    ys_ = firsts;
    weights_ = first_weights;
    gradients_ = graph_.Gradients(ys_, xs_, weights_);
    return graph_.status().ok() || Fail(graph_.status());
  }

  std::optional<double> WeightedSum() {
    const auto values = Fetch(ys_);
    if (!values.has_value()) return std::nullopt;
    double sum = 0;
    for (size_t i = 0; i < values->size(); ++i) {
      const std::vector<double> y = DoublesOf((*values)[i]), w = DoublesOf(feeds_.at(weights_[i].name()));
      for (size_t k = 0; k < y.size(); ++k) sum += y[k] * w[k];
    }
    return sum;
  }

  // What Gradients() gave for x number i, as a dense list; slices are added up.
  std::optional<std::vector<double>> Analytic(size_t i) {
    const Input& x = case_.inputs[x_inputs_[i]];
    const Gradient& gradient = gradients_[i];
    std::vector<double> sums(x.values.size(), 0.0);
    if (gradient.kind == Gradient::Kind::kNone) return sums;
    if (gradient.kind == Gradient::Kind::kDense) {
      const auto values = Fetch({gradient.dense});
      if (!values.has_value()) return std::nullopt;
      if ((*values)[0].shape().dims() != x.shape.dims()) {
        Fail("the gradient of input " + std::to_string(x_inputs_[i]) + " has another shape than the input");
        return std::nullopt;
      }
      return DoublesOf((*values)[0]);
    }
    const auto values = Fetch({gradient.dense, gradient.indices, gradient.dense_shape});
    if (!values.has_value()) return std::nullopt;
    const std::vector<double> rows = DoublesOf((*values)[0]), indices = DoublesOf((*values)[1]);
    const std::vector<double> shape = DoublesOf((*values)[2]);
    if (!std::equal(shape.begin(), shape.end(), x.shape.dims().begin(), x.shape.dims().end())) {
      Fail("the slices name another shape than the input's");
      return std::nullopt;
    }
    const size_t row = x.values.size() / static_cast<size_t>(x.shape.dims()[0]);
    for (size_t k = 0; k < rows.size(); ++k) sums[static_cast<size_t>(indices[k / row]) * row + k % row] += rows[k];
    return sums;
  }

  bool Compare() {
    for (size_t i = 0; i < xs_.size(); ++i) {
      const Input& input = case_.inputs[x_inputs_[i]];
      const auto analytic = Analytic(i);
      if (!analytic.has_value()) return false;
      std::vector<double> at = input.values;
      for (size_t k = 0; k < at.size(); ++k) {
        const auto evaluate = [&](double value) {
          at[k] = value;
          feeds_.insert_or_assign(xs_[i].name(), TensorOf(input.dtype, input.shape, at));
          return WeightedSum();
        };
        const auto up = evaluate(input.values[k] + case_.step), down = evaluate(input.values[k] - case_.step);
        if (!up.has_value() || !down.has_value() || !evaluate(input.values[k]).has_value()) return false;
        const double numeric = (*up - *down) / (2 * case_.step), found = (*analytic)[k];
        if (!(std::abs(numeric - found) <= case_.tolerance * std::max(1.0, std::abs(found))))
          return Fail("element " + std::to_string(k) + " of input " + std::to_string(x_inputs_[i]) +
                      ": the gradient is " + std::to_string(found) + ", the differences say " +
                      std::to_string(numeric));
        saw_slope_ = saw_slope_ || found != 0;
      }
    }
    return true;
  }

  Case case_;
  std::mt19937 random_;
  Knowledge knowledge_;
  Graph graph_;
  std::optional<Session> session_;
  std::map<std::string, Tensor> feeds_;
  std::vector<Output> xs_, ys_, weights_;
  std::vector<size_t> x_inputs_;
  std::vector<Gradient> gradients_;
  std::string why_;
  bool saw_slope_ = false;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_GRADIENT_CASE_H_
