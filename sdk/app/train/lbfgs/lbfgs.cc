// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/lbfgs.h"

#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "sdk/app/train/lbfgs/line_search.h"
#include "tenon/train/optimizer.h"

namespace tenon::train {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double Norm(const Vector& a) { return std::sqrt(Dot(a, a)); }
// a + factor b
Vector Sum(const Vector& a, double factor, const Vector& b) {
  Vector sum(a);
  for (size_t i = 0; i < a.size(); ++i) sum[i] += factor * b[i];
  return sum;
}

struct Point {
  Vector x, gradient;
  double loss = 0;
};

// The last pairs, and the direction that they give.
class History {
 public:
  explicit History(int64_t size) : size_(static_cast<size_t>(size)) {}

  // False where the pair is left out.
  bool Add(Vector s, Vector y) {
    const double ys = Dot(y, s);
    if (!(ys > 1e-12 * Norm(y) * Norm(s))) return false;
    if (pairs_.size() == size_) pairs_.pop_front();
    pairs_.push_back({std::move(s), std::move(y), 1 / ys});
    return true;
  }
  bool empty() const { return pairs_.empty(); }
  void Clear() { pairs_.clear(); }

  // -H gradient: algorithm 7.4.
  Vector Direction(const Vector& gradient) const {
    Vector q = gradient, alphas(pairs_.size());
    for (size_t i = pairs_.size(); i-- > 0;) {
      alphas[i] = pairs_[i].rho * Dot(pairs_[i].s, q);
      q = Sum(q, -alphas[i], pairs_[i].y);
    }
    const double scale = empty() ? 1 : 1 / (pairs_.back().rho * Dot(pairs_.back().y, pairs_.back().y));
    for (double& each : q) each *= scale;
    for (size_t i = 0; i < pairs_.size(); ++i) q = Sum(q, alphas[i] - pairs_[i].rho * Dot(pairs_[i].y, q), pairs_[i].s);
    for (double& each : q) each = -each;
    return q;
  }

 private:
  struct Pair {
    Vector s, y;
    double rho;  // 1 / (y . s)
  };
  const size_t size_;
  std::deque<Pair> pairs_;
};

Status CheckOptions(const LbfgsOptions& options) {
  if (options.history < 1 || options.max_iterations < 0 || options.max_evaluations < 1)
    return Status(Code::kInvalidArgument,
                  "L-BFGS with " + std::to_string(options.history) + " pairs, " +
                      std::to_string(options.max_iterations) + " iterations and " +
                      std::to_string(options.max_evaluations) +
                      " evaluations a line search; pairs and evaluations are 1 at least, iterations 0");
  if (!(options.gradient_tolerance >= 0))
    return Status(Code::kInvalidArgument, "L-BFGS: the gradient's tolerance must be 0 or more");
  if (!(0 < options.sufficient_decrease && options.sufficient_decrease < options.curvature && options.curvature < 1))
    return Status(Code::kInvalidArgument,
                  "L-BFGS: the Wolfe conditions are of 0 < sufficient_decrease < curvature < 1, not of " +
                      std::to_string(options.sufficient_decrease) + " and " + std::to_string(options.curvature));
  return Status();
}

}  // namespace

// One run: the session's side of it, and the iterations.
class LbfgsRun {
 public:
  LbfgsRun(const Lbfgs& lbfgs, const Session& session, const std::vector<host::Feed>& feeds,
           const host::RunOptions& run)
      : lbfgs_(lbfgs),
        options_(lbfgs.options_),
        session_(session),
        feeds_(feeds),
        run_(run),
        history_(lbfgs.options_.history) {}

  Result<LbfgsResult> Run() {
    TENON_TRY(Begin().Annotate("L-BFGS"));
    while (true) {
      result_.loss = at_.loss;
      result_.gradient_norm = Norm(at_.gradient);
      if (result_.iterations > 0 && options_.after_iteration) options_.after_iteration(result_);
      if (result_.gradient_norm <= options_.gradient_tolerance) return Ended(LbfgsResult::End::kGradient);
      if (result_.iterations >= options_.max_iterations) return Ended(LbfgsResult::End::kIterations);
      const Result<bool> moved = Iterate();
      if (!moved.ok())
        return moved.status().Annotate("L-BFGS, iteration " + std::to_string(result_.iterations + 1) +
                                       " (the variables have the values of iteration " +
                                       std::to_string(result_.iterations) + ", with the loss " +
                                       std::to_string(at_.loss) + ")");
      if (!*moved) return Ended(LbfgsResult::End::kNoStep);
      ++result_.iterations;
    }
  }

 private:
  LbfgsResult Ended(LbfgsResult::End end) {
    result_.end = end;
    return result_;
  }

  // ---- The session ----

  Status Begin() {
    std::vector<Name> names, fetches{lbfgs_.loss_}, values;
    for (const host::Feed& feed : feeds_) names.push_back(feed.name);
    for (const Variable* variable : lbfgs_.variables_) values.emplace_back(variable->value);
    names.insert(names.end(), values.begin(), values.end());
    fetches.insert(fetches.end(), lbfgs_.gradients_.begin(), lbfgs_.gradients_.end());
    TENON_TRY_ASSIGN(host::Callable evaluate, session_.Prepare(names, fetches, {}, {}, {}, run_));
    evaluate_.emplace(std::move(evaluate));
    TENON_TRY_ASSIGN(const std::vector<Tensor> first, session_.Run({}, values, {}, run_));
    Vector x;
    for (const Tensor& tensor : first) x.insert(x.end(), tensor.data<float>().begin(), tensor.data<float>().end());
    TENON_TRY_ASSIGN(at_, Evaluate(std::move(x)));
    if (!std::isfinite(at_.loss))
      return Status(Code::kInvalidArgument, "the loss is infinity at the variables' first values");
    return Status();
  }

  // The vector as one tensor a variable; the numbers are kept by this.
  std::vector<View> Views(const Vector& x) {
    floats_.assign(x.begin(), x.end());
    std::vector<View> views;
    size_t from = 0;
    for (const Variable* variable : lbfgs_.variables_) {
      const auto count = static_cast<size_t>(variable->shape.element_count());
      views.emplace_back(std::span<const float>(floats_).subspan(from, count), variable->shape);
      from += count;
    }
    return views;
  }
  // A loss of infinity has no gradient; one that is no number is a failure.
  Result<Point> Evaluate(Vector x) {
    ++result_.evaluations;
    std::vector<View> inputs;
    for (const host::Feed& feed : feeds_) inputs.push_back(feed.value);
    for (View& view : Views(x)) inputs.push_back(std::move(view));
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, evaluate_->Run(inputs, run_));
    if (values[0].data<float>().size() != 1)
      return Status(Code::kInvalidArgument, "the loss is " + host::DTypeName(values[0].dtype()) + " " +
                                                values[0].shape().ToString() + "; one float is needed");
    Point point{std::move(x), {}, values[0].scalar<float>()};
    if (point.loss == INFINITY) return point;
    for (size_t i = 1; i < values.size(); ++i)
      point.gradient.insert(point.gradient.end(), values[i].data<float>().begin(), values[i].data<float>().end());
    if (!std::isfinite(point.loss)) return Status(Code::kInvalidArgument, "the loss is " + std::to_string(point.loss));
    if (!std::isfinite(Norm(point.gradient)))
      return Status(Code::kInvalidArgument,
                    "the loss is " + std::to_string(point.loss) + " and its gradient is not finite");
    return point;
  }
  Status Assign(const Vector& x) {
    std::vector<host::Feed> feeds;
    std::vector<View> views = Views(x);
    for (size_t i = 0; i < views.size(); ++i) feeds.push_back({lbfgs_.next_values_[i], std::move(views[i])});
    return session_.Run(feeds, {}, {lbfgs_.assign_}, run_).status();
  }

  // ---- An iteration ----

  // False where no step makes the loss lower.
  Result<bool> Iterate() {
    TENON_TRY_ASSIGN(std::optional<Point> next, Step(history_.Direction(at_.gradient)));
    if (!next && !history_.empty()) {
      history_.Clear();
      TENON_TRY_ASSIGN(next, Step(history_.Direction(at_.gradient)));
    }
    if (!next) return false;
    TENON_TRY(Assign(next->x));
    if (!history_.Add(Sum(next->x, -1, at_.x), Sum(next->gradient, -1, at_.gradient))) ++result_.left_out;
    at_ = std::move(*next);
    return true;
  }
  // The point at the end of a line search; none where there is none that is lower.
  Result<std::optional<Point>> Step(const Vector& direction) {
    const double slope = Dot(at_.gradient, direction);
    if (!(slope < 0)) return std::optional<Point>();
    LineSearch search{options_.sufficient_decrease, options_.curvature, options_.max_evaluations, {}};
    Point last;
    double last_step = 0;
    search.evaluate = [&](double step) -> Result<LinePoint> {
      TENON_TRY_ASSIGN(last, Evaluate(Moved(step, direction)));
      last_step = step;
      return LinePoint{step, last.loss, last.gradient.empty() ? NAN : Dot(last.gradient, direction)};
    };
    // Without history the direction has the gradient's length, which says nothing of how far to go.
    const double first = history_.empty() ? std::min(1.0, 1 / Norm(direction)) : 1;
    TENON_TRY_ASSIGN(const std::optional<LinePoint> found, search.Find({0, at_.loss, slope}, first));
    if (!found) return std::optional<Point>();
    if (found->step != last_step) TENON_TRY(search.evaluate(found->step).status());
    return std::optional(std::move(last));
  }
  // As the variables' type has it, so that s is what was gone.
  Vector Moved(double step, const Vector& direction) const {
    Vector x = Sum(at_.x, step, direction);
    for (double& each : x) each = static_cast<float>(each);
    return x;
  }

  const Lbfgs& lbfgs_;
  const LbfgsOptions& options_;
  const Session& session_;
  const std::vector<host::Feed>& feeds_;
  const host::RunOptions& run_;
  std::optional<host::Callable> evaluate_;
  std::vector<float> floats_;
  History history_;
  Point at_;
  LbfgsResult result_;
};

std::string_view LbfgsEndName(LbfgsResult::End end) {
  return end == LbfgsResult::End::kGradient     ? "gradient"
         : end == LbfgsResult::End::kIterations ? "iterations"
                                                : "no step";
}

Lbfgs::Lbfgs(Model& model, Output loss, LbfgsOptions options)
    : graph_(model.graph()), options_(std::move(options)), loss_(loss) {
  const auto scope = graph_.Scope("lbfgs");
  if (Status status = CheckOptions(options_); !status.ok()) graph_.Fail(std::move(status));
  const std::vector<Output> gradients = DenseGradients(model, loss);
  if (!graph_.status().ok()) return;
  std::vector<Operation> assigned;
  std::vector<std::string> unreached;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].valid()) {
      unreached.push_back(model.trainable()[i]->name);
      continue;
    }
    const Variable& variable = *model.trainable()[i];
    variables_.push_back(&variable);
    gradients_.push_back(gradients[i]);
    const auto on = graph_.Device(variable.device);
    next_values_.push_back(graph_.Placeholder("next_value", variable.dtype, variable.shape));
    assigned.push_back(
        graph_.AddNode("AssignVariableOp", {variable.handle, next_values_.back()}, {{"dtype", variable.dtype}}));
  }
  if (variables_.empty())
    graph_.Fail(
        Status(Code::kInvalidArgument, "L-BFGS: the loss '" + loss.name() + "' depends on no trainable variable"));
  model.set_unreached(std::move(unreached));
  assign_ = Group(graph_, assigned, "assign");
}

Result<LbfgsResult> Lbfgs::Run(const Session& session, const std::vector<host::Feed>& feeds,
                               const host::RunOptions& run) const {
  TENON_TRY(graph_.status());
  return LbfgsRun(*this, session, feeds, run).Run();
}

}  // namespace tenon::train
