// SPDX-License-Identifier: Apache-2.0
// Training steps as Eigen products and loops, with buffers that are made once.
#include <omp.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "bare_step.h"

namespace tenon::perf {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::Matrix<float, 1, Eigen::Dynamic>;
using MatrixMap = Eigen::Map<Matrix>;
using ConstMatrixMap = Eigen::Map<const Matrix>;
using Array = Eigen::Map<Eigen::ArrayXf>;
using ConstArray = Eigen::Map<const Eigen::ArrayXf>;

// A layer's weights and what a step makes of them.
struct Layer {
  Layer(const Weights& first, size_t index, int64_t in, int64_t out)
      : w(ConstMatrixMap(first[index].data(), in, out)),
        b(Eigen::Map<const Row>(first[index + 1].data(), out)),
        dw(in, out),
        db(out) {}
  template <class X, class Y>
  void Forward(const X& x, Y& y) const {
    y.noalias() = x * w;
    y.rowwise() += b;
  }
  template <class X, class DY>
  void WeightGradients(const X& x, const DY& dy) {
    dw.noalias() = x.transpose() * dy;
    db = dy.colwise().sum();
  }
  void Descend(float rate) {
    w -= rate * dw;
    b -= rate * db;
  }
  Matrix w;
  Row b;
  Matrix dw;
  Row db;
};

template <class M>
void Relu(M& y) {
  y = y.cwiseMax(0.0f);
}

class Tiny final : public BareStep {
  using B = TinyBatch;

 public:
  Tiny(const TinyBatch& batch, const Weights& first)
      : batch_(batch), first_(first, 0, B::kInputs, B::kHidden), second_(first, 2, B::kHidden, B::kClasses) {}
  float Run() override {
    const ConstMatrixMap x(batch_.x.data(), B::kRows, B::kInputs);
    first_.Forward(x, hidden_);
    Relu(hidden_);
    second_.Forward(hidden_, logits_);
    const float loss =
        SoftmaxLoss(logits_.data(), batch_.labels.data(), B::kRows, B::kClasses, logit_gradient_.data(), nullptr);
    second_.WeightGradients(hidden_, logit_gradient_);
    hidden_gradient_.noalias() = logit_gradient_ * second_.w.transpose();
    KeepWherePositive(hidden_.data(), hidden_.size(), hidden_gradient_.data());
    first_.WeightGradients(x, hidden_gradient_);
    first_.Descend(B::kRate);
    second_.Descend(B::kRate);
    return loss;
  }

 private:
  const TinyBatch& batch_;
  Layer first_, second_;
  Matrix hidden_{B::kRows, B::kHidden}, logits_{B::kRows, B::kClasses};
  Matrix logit_gradient_{B::kRows, B::kClasses}, hidden_gradient_{B::kRows, B::kHidden};
};

// The convolutions are products with the matrix of patches; a patch is the 3x3 neighbourhood of a pixel.
class Digits final : public BareStep {
  using B = DigitBatch;
  static constexpr int64_t kPoints = B::kRows * B::kPixels, kPooledPoints = kPoints / 4;

 public:
  Digits(const DigitBatch& batch, const Weights& first)
      : batch_(batch),
        labels_(batch.labels.begin(), batch.labels.end()),
        conv1_(first, 0, B::kTaps, B::kFilters1),
        conv2_(first, 2, B::kTaps * B::kFilters1, B::kFilters2),
        dense1_(first, 4, B::kFeatures, B::kHidden),
        dense2_(first, 6, B::kHidden, B::kClasses),
        adam_(first, batch.rate) {
    patches1_.setZero();  // what lies outside of the image stays zero
    patches2_.setZero();
  }

  float Run() override {
    MovePixels(batch_, pixels_.data());
    Gather<1>(pixels_.data(), patches1_.data());
    conv1_.Forward(patches1_, y1_);
    Relu(y1_);
    Gather<B::kFilters1>(y1_.data(), patches2_.data());
    conv2_.Forward(patches2_, y2_);
    Relu(y2_);
    Pool();
    const MatrixMap features(pooled_.data(), B::kRows, B::kFeatures);
    dense1_.Forward(features, hidden_);
    Relu(hidden_);
    dense2_.Forward(hidden_, logits_);
    const float loss =
        SoftmaxLoss(logits_.data(), labels_.data(), B::kRows, B::kClasses, logit_gradient_.data(), &accuracy_);

    dense2_.WeightGradients(hidden_, logit_gradient_);
    hidden_gradient_.noalias() = logit_gradient_ * dense2_.w.transpose();
    KeepWherePositive(hidden_.data(), hidden_.size(), hidden_gradient_.data());
    dense1_.WeightGradients(features, hidden_gradient_);
    MatrixMap feature_gradient(pooled_gradient_.data(), B::kRows, B::kFeatures);
    feature_gradient.noalias() = hidden_gradient_ * dense1_.w.transpose();
    Unpool();
    KeepWherePositive(y2_.data(), y2_.size(), y2_gradient_.data());
    conv2_.WeightGradients(patches2_, y2_gradient_);
    patches2_gradient_.noalias() = y2_gradient_ * conv2_.w.transpose();
    Scatter<B::kFilters1>(patches2_gradient_.data(), y1_gradient_.data());
    KeepWherePositive(y1_.data(), y1_.size(), y1_gradient_.data());
    conv1_.WeightGradients(patches1_, y1_gradient_);

    size_t index = 0;
    for (Layer* layer : {&conv1_, &conv2_, &dense1_, &dense2_}) {
      adam_.Apply(index++, layer->dw.data(), layer->w.data());
      adam_.Apply(index++, layer->db.data(), layer->b.data());
    }
    adam_.Next();
    return loss;
  }

 private:
  // function(pixel's index, tap's index, neighbour's index) for neighbours inside the image.
  template <class Function>
  static void EachTap(Function&& function) {
    for (int64_t n = 0; n < B::kRows; ++n) {
      for (int64_t row = 0; row < B::kSide; ++row) {
        for (int64_t column = 0; column < B::kSide; ++column) {
          for (int64_t tap = 0; tap < B::kTaps; ++tap) {
            const int64_t r = row + tap / 3 - 1, c = column + tap % 3 - 1;
            if (r < 0 || r >= B::kSide || c < 0 || c >= B::kSide) continue;
            function((n * B::kSide + row) * B::kSide + column, tap, (n * B::kSide + r) * B::kSide + c);
          }
        }
      }
    }
  }
  template <int64_t kChannels>
  static void Gather(const float* image, float* patches) {
    EachTap([&](int64_t at, int64_t tap, int64_t from) {
      std::copy_n(image + from * kChannels, kChannels, patches + (at * B::kTaps + tap) * kChannels);
    });
  }
  template <int64_t kChannels>
  static void Scatter(const float* patches, float* image) {
    std::fill_n(image, kPoints * kChannels, 0.0f);
    EachTap([&](int64_t at, int64_t tap, int64_t to) {
      const float* patch = patches + (at * B::kTaps + tap) * kChannels;
      for (int64_t i = 0; i < kChannels; ++i) image[to * kChannels + i] += patch[i];
    });
  }
  // The index of the top left pixel of a pooled pixel's window.
  static int64_t Window(int64_t pooled) {
    const int64_t n = pooled / (B::kPooled * B::kPooled), rest = pooled % (B::kPooled * B::kPooled);
    return (n * B::kSide + rest / B::kPooled * 2) * B::kSide + rest % B::kPooled * 2;
  }
  void Pool() {
    for (int64_t p = 0; p < kPooledPoints; ++p) {
      const float* top = y2_.data() + Window(p) * B::kFilters2;
      const float* bottom = top + B::kSide * B::kFilters2;
      float* out = pooled_.data() + p * B::kFilters2;
      for (int64_t i = 0; i < B::kFilters2; ++i) {
        out[i] = std::max(std::max(top[i], top[B::kFilters2 + i]), std::max(bottom[i], bottom[B::kFilters2 + i]));
      }
    }
  }
  // To the first pixel of the window that is the greatest.
  void Unpool() {
    for (int64_t p = 0; p < kPooledPoints; ++p) {
      const int64_t corner = Window(p) * B::kFilters2;
      const int64_t offsets[] = {0, B::kFilters2, B::kSide * B::kFilters2, (B::kSide + 1) * B::kFilters2};
      const float* greatest = pooled_.data() + p * B::kFilters2;
      const float* gradient = pooled_gradient_.data() + p * B::kFilters2;
      for (int64_t i = 0; i < B::kFilters2; ++i) {
        float left = gradient[i];
        for (const int64_t offset : offsets) {
          const bool here = y2_.data()[corner + offset + i] == greatest[i];
          y2_gradient_.data()[corner + offset + i] = here ? left : 0.0f;
          left = here ? 0.0f : left;
        }
      }
    }
  }

  const DigitBatch& batch_;
  std::vector<int64_t> labels_;
  Layer conv1_, conv2_, dense1_, dense2_;
  Adam adam_;
  float accuracy_ = 0;
  Matrix pixels_{kPoints, 1}, patches1_{kPoints, B::kTaps}, y1_{kPoints, B::kFilters1};
  Matrix patches2_{kPoints, B::kTaps*B::kFilters1}, y2_{kPoints, B::kFilters2}, pooled_{kPooledPoints, B::kFilters2};
  Matrix hidden_{B::kRows, B::kHidden}, logits_{B::kRows, B::kClasses};
  Matrix logit_gradient_{B::kRows, B::kClasses}, hidden_gradient_{B::kRows, B::kHidden};
  Matrix pooled_gradient_{kPooledPoints, B::kFilters2}, y2_gradient_{kPoints, B::kFilters2};
  Matrix patches2_gradient_{kPoints, B::kTaps*B::kFilters1}, y1_gradient_{kPoints, B::kFilters1};
};

}  // namespace

void UseThreads(int threads) {
  omp_set_num_threads(threads);  // oneDNN's too
  Eigen::setNbThreads(threads);
}

std::unique_ptr<BareStep> TinyWithEigen(const TinyBatch& batch, const Weights& first) {
  return std::make_unique<Tiny>(batch, first);
}
std::unique_ptr<BareStep> DigitsWithEigen(const DigitBatch& batch, const Weights& first) {
  return std::make_unique<Digits>(batch, first);
}

float SoftmaxLoss(const float* logits, const int64_t* labels, int64_t rows, int64_t columns, float* gradient,
                  float* right) {
  float loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const ConstArray z(logits + i * columns, columns);
    Array g(gradient + i * columns, columns);
    const float greatest = z.maxCoeff();
    const int64_t label = labels[i];
    if (right != nullptr) correct += std::find(z.data(), z.data() + columns, greatest) - z.data() == label ? 1 : 0;
    g = (z - greatest).exp();
    const float sum = g.sum();
    loss += std::log(sum) - (z[label] - greatest);
    g *= 1.0f / (sum * static_cast<float>(rows));
    g[label] -= 1.0f / static_cast<float>(rows);
  }
  if (right != nullptr) *right = static_cast<float>(correct) / static_cast<float>(rows);
  return loss / static_cast<float>(rows);
}

void MovePixels(const DigitBatch& batch, float* pixels) {
  using B = DigitBatch;
  for (int64_t n = 0; n < B::kRows; ++n) {
    for (int64_t row = 0; row < B::kSide; ++row) {
      for (int64_t column = 0; column < B::kSide; ++column) {
        const int64_t r = row + batch.down - 1, c = column + batch.right - 1;
        const bool inside = r >= 0 && r < B::kSide && c >= 0 && c < B::kSide;
        *pixels++ = inside
                        ? static_cast<float>(batch.images[static_cast<size_t>((n * B::kSide + r) * B::kSide + c)]) / 16
                        : 0.0f;
      }
    }
  }
}

void AddColumnSums(const float* rows, int64_t count, int64_t columns, float* sums) {
  Eigen::Map<Row>(sums, columns) = ConstMatrixMap(rows, count, columns).colwise().sum();
}

void KeepWherePositive(const float* forward, int64_t count, float* gradient) {
  for (int64_t i = 0; i < count; ++i) gradient[i] = forward[i] > 0 ? gradient[i] : 0.0f;
}

void Descend(std::span<const float> gradient, float rate, std::span<float> weights) {
  Array(weights.data(), static_cast<Eigen::Index>(weights.size())) -=
      rate * ConstArray(gradient.data(), static_cast<Eigen::Index>(gradient.size()));
}

namespace {
constexpr float kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;
}

Adam::Adam(const Weights& weights, float rate) : rate_(rate), beta1_power_(kBeta1), beta2_power_(kBeta2) {
  for (const std::vector<float>& weight : weights) {
    m_.emplace_back(weight.size(), 0.0f);
    v_.emplace_back(weight.size(), 0.0f);
  }
}

void Adam::Apply(size_t index, const float* gradient, float* weights) {
  const auto count = static_cast<Eigen::Index>(m_[index].size());
  const float rate = rate_ * std::sqrt(1 - beta2_power_) / (1 - beta1_power_);
  float* m = m_[index].data();
  float* v = v_[index].data();
  for (Eigen::Index i = 0; i < count; ++i) {
    m[i] += (gradient[i] - m[i]) * (1 - kBeta1);
    v[i] += (gradient[i] * gradient[i] - v[i]) * (1 - kBeta2);
    weights[i] -= rate * m[i] / (std::sqrt(v[i]) + kEpsilon);
  }
}

void Adam::Next() {
  beta1_power_ *= kBeta1;
  beta2_power_ *= kBeta2;
}

}  // namespace tenon::perf
