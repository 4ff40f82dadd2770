// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a training step as bare calls of a library, without an engine: what step_bench compares with.
//
// Weights are in the order in which the model makes its variables: for each layer the kernel, then the bias. Kernels of
// convolutions are [height, width, in, out], of dense layers [in, out]. Images and activations are NHWC.
#ifndef TENON_TESTS_PERF_BARE_STEP_H_
#define TENON_TESTS_PERF_BARE_STEP_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon::perf {

using Weights = std::vector<std::vector<float>>;

// One training step on the same batch, again and again.
class BareStep {
 public:
  virtual ~BareStep() = default;
  virtual float Run() = 0;  // the loss before the update
};

// 64 -> 32, relu -> 10; mean of the softmax cross entropy; gradient descent.
struct TinyBatch {
  static constexpr int64_t kRows = 32, kInputs = 64, kHidden = 32, kClasses = 10;
  static constexpr float kRate = 0.05f;
  std::vector<float> x;  // [kRows, kInputs]
  std::vector<int64_t> labels;
};

// The network of sdk/app/train/jobs/digits.cc and its optimizer, Adam.
struct DigitBatch {
  static constexpr int64_t kRows = 32, kSide = 8, kFilters1 = 16, kFilters2 = 32, kTaps = 9, kHidden = 64,
                           kClasses = 10;
  static constexpr int64_t kPixels = kSide * kSide, kPooled = kSide / 2, kFeatures = kPooled * kPooled * kFilters2;
  std::vector<uint8_t> images;  // [kRows, kSide, kSide]
  std::vector<uint8_t> labels;
  int64_t down = 0, right = 0;  // of the batch's move: 0 to 2
  float rate = 0;
};

// `threads` of Eigen and of oneDNN are a setting of the process: UseThreads, before steps run.
void UseThreads(int threads);
std::unique_ptr<BareStep> TinyWithEigen(const TinyBatch& batch, const Weights& first);
std::unique_ptr<BareStep> TinyWithOnednn(const TinyBatch& batch, const Weights& first);
std::unique_ptr<BareStep> DigitsWithEigen(const DigitBatch& batch, const Weights& first);
std::unique_ptr<BareStep> DigitsWithOnednn(const DigitBatch& batch, const Weights& first);

// ---- What neither library has, written once for both (bare_eigen.cc) ----

// The mean cross entropy of rows of logits; its gradient; how many rows are right.
float SoftmaxLoss(const float* logits, const int64_t* labels, int64_t rows, int64_t columns, float* gradient,
                  float* right);
// The batch's images as numbers, moved.
void MovePixels(const DigitBatch& batch, float* pixels);
void AddColumnSums(const float* rows, int64_t count, int64_t columns, float* sums);  // sums = the columns' sums
void KeepWherePositive(const float* forward, int64_t count, float* gradient);        // relu's gradient
void Descend(std::span<const float> gradient, float rate, std::span<float> weights);

class Adam {
 public:
  Adam(const Weights& weights, float rate);
  // Once for each weight, then Next().
  void Apply(size_t index, const float* gradient, float* weights);
  void Next();

 private:
  float rate_, beta1_power_, beta2_power_;
  Weights m_, v_;
};

}  // namespace tenon::perf

#endif  // TENON_TESTS_PERF_BARE_STEP_H_
