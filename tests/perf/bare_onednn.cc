// SPDX-License-Identifier: Apache-2.0
// Training steps as oneDNN primitives that are made once and executed in a row. Weights stay in the layout of the
// model; where a primitive wants another, a reorder is one of the calls.
#include <dnnl.hpp>
#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "bare_step.h"

namespace tenon::perf {
namespace {

using dnnl::memory;
using Desc = memory::desc;
using Tag = memory::format_tag;

Desc Layout(memory::dims dims, Tag tag) { return Desc(std::move(dims), memory::data_type::f32, tag); }

dnnl::primitive_attr WithRelu(bool relu) {
  dnnl::primitive_attr attributes;
  if (!relu) return attributes;
  dnnl::post_ops after;
  after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(after);
  return attributes;
}

// Primitives and plain functions, run in the order of adding.
class Calls {
 public:
  memory Wrap(const Desc& desc, float* data) { return memory(desc, engine_, data); }
  memory Wrap(const Desc& desc, std::vector<float>& data) { return Wrap(desc, data.data()); }
  memory Make(const Desc& desc) { return memory(desc, engine_); }
  const dnnl::engine& engine() const { return engine_; }

  void Add(const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments) {
    Call& call = calls_.emplace_back();
    call.primitive = primitive;
    for (const auto& [index, value] : arguments) {
      kept_.push_back(value);
      call.arguments.push_back({index, value.get()});
    }
  }
  void Then(std::function<void()> function) { calls_.emplace_back().function = std::move(function); }

  // The value in another layout; and where to write what becomes `to` by Finish.
  memory As(const memory& from, const Desc& desc) {
    if (from.get_desc() == desc) return from;
    memory made = Make(desc);
    Finish(from, made);
    return made;
  }
  memory Target(const memory& to, const Desc& desc) { return to.get_desc() == desc ? to : Make(desc); }
  void Finish(const memory& made, const memory& to) {
    if (made != to) Add(dnnl::reorder(made, to), {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, to}});
  }

  // y = a b (+ bias) (, relu).
  void MatMul(const memory& a, const memory& b, const memory& y, const memory* bias = nullptr, bool relu = false) {
    const dnnl::matmul::desc desc =
        bias == nullptr ? dnnl::matmul::desc(a.get_desc(), b.get_desc(), y.get_desc())
                        : dnnl::matmul::desc(a.get_desc(), b.get_desc(), bias->get_desc(), y.get_desc());
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}};
    if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, *bias);
    Add(dnnl::matmul({desc, WithRelu(relu), engine_}), arguments);
  }

  void Run() {
    for (const Call& call : calls_) {
      if (call.function) {
        call.function();
      } else if (dnnl_primitive_execute(call.primitive.get(), stream_.get(), static_cast<int>(call.arguments.size()),
                                        call.arguments.data()) != dnnl_success) {
        throw std::runtime_error("a oneDNN primitive failed");
      }
    }
    stream_.wait();
  }

 private:
  struct Call {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    std::function<void()> function;
  };
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Call> calls_;
  std::vector<memory> kept_;
};

// A dense layer of a step; x and its gradient are [rows, in].
class Dense {
 public:
  Dense(Calls& calls, std::vector<float>& w, std::vector<float>& b, int64_t rows, int64_t in, int64_t out)
      : calls_(calls),
        rows_(rows),
        in_(in),
        out_(out),
        dw(w.size()),
        db(b.size()),
        y(Size(rows, out)),
        dy(Size(rows, out)),
        w_(w),
        b_(b) {}
  void Forward(std::vector<float>& x, bool relu) {
    const memory bias = calls_.Wrap(Layout({1, out_}, Tag::ab), b_);
    calls_.MatMul(calls_.Wrap(Layout({rows_, in_}, Tag::ab), x), calls_.Wrap(Layout({in_, out_}, Tag::ab), w_),
                  calls_.Wrap(Layout({rows_, out_}, Tag::ab), y), &bias, relu);
  }
  // From dy; dx may be NULL.
  void Backward(std::vector<float>& x, std::vector<float>* dx) {
    const memory gradient = calls_.Wrap(Layout({rows_, out_}, Tag::ab), dy);
    calls_.MatMul(calls_.Wrap(Layout({in_, rows_}, Tag::ba), x), gradient,
                  calls_.Wrap(Layout({in_, out_}, Tag::ab), dw));
    calls_.Then([this] { AddColumnSums(dy.data(), rows_, out_, db.data()); });
    if (dx == nullptr) return;
    calls_.MatMul(gradient, calls_.Wrap(Layout({out_, in_}, Tag::ba), w_),
                  calls_.Wrap(Layout({rows_, in_}, Tag::ab), *dx));
  }

 private:
  static size_t Size(int64_t a, int64_t b) { return static_cast<size_t>(a * b); }
  Calls& calls_;
  int64_t rows_, in_, out_;

 public:
  std::vector<float> dw, db, y, dy;

 private:
  std::vector<float>& w_;
  std::vector<float>& b_;
};

class Tiny final : public BareStep {
  using B = TinyBatch;

 public:
  Tiny(const TinyBatch& batch, const Weights& first) : batch_(batch), x_(batch.x), weights_(first) {
    first_.Forward(x_, true);
    second_.Forward(first_.y, false);
    calls_.Then([this] {
      loss_ = SoftmaxLoss(second_.y.data(), batch_.labels.data(), B::kRows, B::kClasses, second_.dy.data(), nullptr);
    });
    second_.Backward(first_.y, &first_.dy);
    calls_.Then([this] { KeepWherePositive(first_.y.data(), B::kRows * B::kHidden, first_.dy.data()); });
    first_.Backward(x_, nullptr);
    calls_.Then([this] {
      Descend(first_.dw, B::kRate, weights_[0]);
      Descend(first_.db, B::kRate, weights_[1]);
      Descend(second_.dw, B::kRate, weights_[2]);
      Descend(second_.db, B::kRate, weights_[3]);
    });
  }
  float Run() override {
    calls_.Run();
    return loss_;
  }

 private:
  const TinyBatch& batch_;
  std::vector<float> x_;
  Weights weights_;
  Calls calls_;
  Dense first_{calls_, weights_[0], weights_[1], B::kRows, B::kInputs, B::kHidden};
  Dense second_{calls_, weights_[2], weights_[3], B::kRows, B::kHidden, B::kClasses};
  float loss_ = 0;
};

// A 3x3 convolution of a step, with relu.
class Convolution {
  using B = DigitBatch;

 public:
  Convolution(Calls& calls, std::vector<float>& w, std::vector<float>& b, int64_t in, int64_t out)
      : calls_(calls), in_(in), out_(out), dw(w.size()), db(b.size()), y(Size(out)), dy(Size(out)), w_(w), b_(b) {}
  void Forward(std::vector<float>& x) {
    const auto pd = ForwardDesc();
    const memory filter = calls_.As(calls_.Wrap(Filter(), w_), pd.weights_desc());
    calls_.Add(dnnl::convolution_forward(pd), {{DNNL_ARG_SRC, calls_.Wrap(Image(in_), x)},
                                               {DNNL_ARG_WEIGHTS, filter},
                                               {DNNL_ARG_BIAS, calls_.Wrap(Bias(), b_)},
                                               {DNNL_ARG_DST, calls_.Wrap(Image(out_), y)}});
  }
  void Backward(std::vector<float>& x, std::vector<float>* dx) {
    calls_.Then([this] { KeepWherePositive(y.data(), static_cast<int64_t>(y.size()), dy.data()); });
    const memory gradient = calls_.Wrap(Image(out_), dy);
    using ByWeights = dnnl::convolution_backward_weights;
    const ByWeights::primitive_desc pd(
        ByWeights::desc(kDirect, Image(in_), AnyFilter(), Bias(), Image(out_), kOne, kOne, kOne), calls_.engine(),
        ForwardDesc());
    const memory result = calls_.Wrap(Filter(), dw), made = calls_.Target(result, pd.diff_weights_desc());
    calls_.Add(ByWeights(pd), {{DNNL_ARG_SRC, calls_.Wrap(Image(in_), x)},
                               {DNNL_ARG_DIFF_DST, gradient},
                               {DNNL_ARG_DIFF_WEIGHTS, made},
                               {DNNL_ARG_DIFF_BIAS, calls_.Wrap(Bias(), db)}});
    calls_.Finish(made, result);
    if (dx == nullptr) return;
    using ByData = dnnl::convolution_backward_data;
    const ByData::primitive_desc data(ByData::desc(kDirect, Image(in_), AnyFilter(), Image(out_), kOne, kOne, kOne),
                                      calls_.engine(), ForwardDesc());
    calls_.Add(ByData(data), {{DNNL_ARG_WEIGHTS, calls_.As(calls_.Wrap(Filter(), w_), data.weights_desc())},
                              {DNNL_ARG_DIFF_DST, gradient},
                              {DNNL_ARG_DIFF_SRC, calls_.Wrap(Image(in_), *dx)}});
  }
  static Desc Image(int64_t channels) { return Layout({B::kRows, channels, B::kSide, B::kSide}, Tag::nhwc); }

 private:
  static constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  inline static const memory::dims kOne = {1, 1};
  static size_t Size(int64_t channels) { return static_cast<size_t>(B::kRows * B::kPixels * channels); }
  Desc Filter() const { return Layout({out_, in_, 3, 3}, Tag::hwio); }
  Desc AnyFilter() const { return Layout({out_, in_, 3, 3}, Tag::any); }
  Desc Bias() const { return Layout({out_}, Tag::a); }
  dnnl::convolution_forward::primitive_desc ForwardDesc() const {
    return {
        {dnnl::prop_kind::forward_training, kDirect, Image(in_), AnyFilter(), Bias(), Image(out_), kOne, kOne, kOne},
        WithRelu(true),
        calls_.engine()};
  }
  Calls& calls_;
  int64_t in_, out_;

 public:
  std::vector<float> dw, db, y, dy;

 private:
  std::vector<float>& w_;
  std::vector<float>& b_;
};

class Digits final : public BareStep {
  using B = DigitBatch;

 public:
  Digits(const DigitBatch& batch, const Weights& first)
      : batch_(batch), labels_(batch.labels.begin(), batch.labels.end()), weights_(first), adam_(first, batch.rate) {
    calls_.Then([this] { MovePixels(batch_, pixels_.data()); });
    conv1_.Forward(pixels_);
    conv2_.Forward(conv1_.y);
    const memory pooled = calls_.Wrap(Layout({B::kRows, B::kFilters2, B::kPooled, B::kPooled}, Tag::nhwc), pooled_);
    const dnnl::pooling_forward::primitive_desc pool({dnnl::prop_kind::forward_training,
                                                      kMax,
                                                      Convolution::Image(B::kFilters2),
                                                      pooled.get_desc(),
                                                      {2, 2},
                                                      {2, 2},
                                                      {0, 0},
                                                      {0, 0}},
                                                     calls_.engine());
    const memory positions = calls_.Make(pool.workspace_desc());
    calls_.Add(dnnl::pooling_forward(pool), {{DNNL_ARG_SRC, calls_.Wrap(Convolution::Image(B::kFilters2), conv2_.y)},
                                             {DNNL_ARG_DST, pooled},
                                             {DNNL_ARG_WORKSPACE, positions}});
    dense1_.Forward(pooled_, true);
    dense2_.Forward(dense1_.y, false);
    calls_.Then([this] {
      loss_ = SoftmaxLoss(dense2_.y.data(), labels_.data(), B::kRows, B::kClasses, dense2_.dy.data(), &accuracy_);
    });
    dense2_.Backward(dense1_.y, &dense1_.dy);
    calls_.Then([this] { KeepWherePositive(dense1_.y.data(), B::kRows * B::kHidden, dense1_.dy.data()); });
    dense1_.Backward(pooled_, &pooled_gradient_);
    const dnnl::pooling_backward::primitive_desc unpool(
        {kMax, Convolution::Image(B::kFilters2), pooled.get_desc(), {2, 2}, {2, 2}, {0, 0}, {0, 0}}, calls_.engine(),
        pool);
    calls_.Add(dnnl::pooling_backward(unpool),
               {{DNNL_ARG_DIFF_SRC, calls_.Wrap(Convolution::Image(B::kFilters2), conv2_.dy)},
                {DNNL_ARG_DIFF_DST, calls_.Wrap(pooled.get_desc(), pooled_gradient_)},
                {DNNL_ARG_WORKSPACE, positions}});
    conv2_.Backward(conv1_.y, &conv1_.dy);
    conv1_.Backward(pixels_, nullptr);
    calls_.Then([this] { Update(); });
  }
  float Run() override {
    calls_.Run();
    return loss_;
  }

 private:
  static constexpr auto kMax = dnnl::algorithm::pooling_max;
  void Update() {
    const std::vector<float>* gradients[] = {&conv1_.dw,  &conv1_.db,  &conv2_.dw,  &conv2_.db,
                                             &dense1_.dw, &dense1_.db, &dense2_.dw, &dense2_.db};
    for (size_t i = 0; i < weights_.size(); ++i) adam_.Apply(i, gradients[i]->data(), weights_[i].data());
    adam_.Next();
  }

  const DigitBatch& batch_;
  std::vector<int64_t> labels_;
  Weights weights_;
  Adam adam_;
  Calls calls_;
  Convolution conv1_{calls_, weights_[0], weights_[1], 1, B::kFilters1};
  Convolution conv2_{calls_, weights_[2], weights_[3], B::kFilters1, B::kFilters2};
  Dense dense1_{calls_, weights_[4], weights_[5], B::kRows, B::kFeatures, B::kHidden};
  Dense dense2_{calls_, weights_[6], weights_[7], B::kRows, B::kHidden, B::kClasses};
  std::vector<float> pixels_ = std::vector<float>(B::kRows * B::kPixels);
  std::vector<float> pooled_ = std::vector<float>(B::kRows * B::kFeatures);
  std::vector<float> pooled_gradient_ = std::vector<float>(B::kRows * B::kFeatures);
  float loss_ = 0, accuracy_ = 0;
};

}  // namespace

std::unique_ptr<BareStep> TinyWithOnednn(const TinyBatch& batch, const Weights& first) {
  return std::make_unique<Tiny>(batch, first);
}
std::unique_ptr<BareStep> DigitsWithOnednn(const DigitBatch& batch, const Weights& first) {
  return std::make_unique<Digits>(batch, first);
}

}  // namespace tenon::perf
