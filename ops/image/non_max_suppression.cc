// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression, its versions V2 to V5, and NonMaxSuppressionWithOverlaps: which boxes are left when of those that
// overlap the best alone stays.
#include <limits>
#include <string>

#include "suppression.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using Boxes = Types<float, Half>;

// A threshold of either type, as the boxes' type rounds it.
template <class T>
T NumberOf(const RunContext& c, int32_t input) {
  T value{};
  Boxes::Dispatch(c.input_view(input).dtype,
                  [&]<class U>(Tag<U>) { value = T(static_cast<float>(c.input<U>(input)[0])); });
  return value;
}

int64_t MostOf(const RunContext& c, int64_t boxes) {
  const int32_t most = c.input<int32_t>(2)[0];
  if (most < 0) Fail(TENON_INVALID_ARGUMENT, "max_output_size must not be negative; it is ", most);
  return std::min<int64_t>(most, boxes);
}

// kThresholds: 0, with the attribute iou_threshold; 1, with that as an input; 2, with score_threshold; 3, with
// soft_nms_sigma.
template <int kThresholds>
struct Select {
  explicit Select(CreateContext& c) : overlap(c.Has("iou_threshold") ? c.Float("iou_threshold") : 0),
      pads(c.Has("pad_to_max_output_size") && c.Bool("pad_to_max_output_size")) {
    if (overlap < 0 || overlap > 1) c.Invalid("iou_threshold must be in [0, 1]; it is ", std::to_string(overlap));
  }
  void Run(RunContext c) const {
    Boxes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { RunAs<T>(c); });
  }

 private:
  template <class T>
  void RunAs(const RunContext& c) const {
    const T* boxes = c.input<T>(0);
    const int64_t count = DimsOf(c.input_view(0))[0];
    const Suppression<T> rule = RuleOf<T>(c);
    CancelPoll poll(c);
    Chosen<T> chosen = Suppress<T>(poll, c.input<T>(1), count, MostOf(c, count), rule,
        [boxes](int64_t i, int64_t j) { return OverlapOf(boxes + 4 * i, boxes + 4 * j); });
    Give(c, chosen);
  }
  template <class T>
  Suppression<T> RuleOf(const RunContext& c) const {
    Suppression<T> rule{T(overlap), T(-std::numeric_limits<float>::infinity())};
    if constexpr (kThresholds >= 1) rule.overlap = NumberOf<T>(c, 3);
    if constexpr (kThresholds >= 2) rule.least = NumberOf<T>(c, 4);
    if constexpr (kThresholds >= 3) rule.sigma = NumberOf<T>(c, 5);
    const float threshold = static_cast<float>(rule.overlap), sigma = static_cast<float>(rule.sigma);
    if (!(threshold >= 0 && threshold <= 1))
      Fail(TENON_INVALID_ARGUMENT, "iou_threshold must be in [0, 1]; it is ", std::to_string(threshold));
    if (!(sigma >= 0)) Fail(TENON_INVALID_ARGUMENT, "soft_nms_sigma must be 0 at least; it is ", std::to_string(sigma));
    return rule;
  }
  template <class T>
  void Give(const RunContext& c, Chosen<T>& chosen) const {
    const auto valid = static_cast<int32_t>(chosen.index.size());
    const int64_t size = pads ? c.input<int32_t>(2)[0] : valid;
    c.AllocOutput(0, {&size, 1});
    std::fill(std::copy_n(chosen.index.begin(), valid, c.output<int32_t>(0)), c.output<int32_t>(0) + size, 0);
    if constexpr (kThresholds >= 3) {
      c.AllocOutput(1, {&size, 1});
      std::fill(std::copy_n(chosen.score.begin(), valid, c.output<T>(1)), c.output<T>(1) + size, T(0.0f));
    }
    const int32_t last = c.output_count() - 1;
    if (last == 0) return;
    c.AllocOutput(last, Dims());
    c.output<int32_t>(last)[0] = valid;
  }

  const float overlap;
  const bool pads;
};

struct SelectByOverlaps {
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    const int64_t count = dims[0];
    if (dims[1] != count) Fail(TENON_INVALID_ARGUMENT, "overlaps must be square; its shape is ", dims);
    const float* overlaps = c.input<float>(0);
    CancelPoll poll(c);
    const Suppression<float> rule{c.input<float>(3)[0], c.input<float>(4)[0]};
    const Chosen<float> chosen = Suppress<float>(poll, c.input<float>(1), count, MostOf(c, count), rule,
                                                 [&](int64_t i, int64_t j) { return overlaps[i * count + j]; });
    const auto size = static_cast<int64_t>(chosen.index.size());
    c.AllocOutput(0, {&size, 1});
    std::copy_n(chosen.index.begin(), size, c.output<int32_t>(0));
  }
};

// The number of what is chosen is known with padding alone.
void SelectShape(ShapeContext& c) {
  const Shape boxes = c.WithRank(0, 2), scores = c.WithRank(1, 1);
  c.Merge(boxes[0], scores[0], "the numbers of boxes and of scores");
  for (int i = 2; i < c.input_count(); ++i) c.WithRank(i, 0);
  c.SetOutput(0, {kUnknown});
}
void BoxShape(ShapeContext& c) {
  c.Merge(c.WithRank(0, 2)[1], 4, "the numbers of a box and 4");
  SelectShape(c);
}
template <int kScores>
void PaddedShape(ShapeContext& c) {
  BoxShape(c);
  const auto most = c.Bool("pad_to_max_output_size") ? c.Integer(2) : std::nullopt;
  if (most.has_value() && *most < 0) c.Invalid("max_output_size must not be negative; it is ", *most);
  if (!c.ok()) return;
  for (int i = 0; i <= kScores; ++i) c.SetOutput(i, {most.value_or(kUnknown)});
  c.SetOutput(kScores + 1, Shape::Scalar());
}

constexpr Traits kChooses = {.dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kBoxes = {.constraints = Constraints<Boxes::Constraint<"T">>::list,
                           .dynamic_outputs = TENON_DYNAMIC_ALL};

#define TENON_BOXES                                                                                                  \
  "rank(boxes) == 2; dim(boxes, 1) == 4; rank(scores) == 1; dim(boxes, 0) == dim(scores, 0); rank(max_output_size) " \
  "== 0"

}  // namespace

TENON_KERNEL(kNonMaxSuppressionKernel) = Registration<Select<0>>("NonMaxSuppression", kChooses);
TENON_KERNEL(kNonMaxSuppressionV2Kernel) = Registration<Select<1>>("NonMaxSuppressionV2", kBoxes);
TENON_KERNEL(kNonMaxSuppressionV3Kernel) = Registration<Select<2>>("NonMaxSuppressionV3", kBoxes);
TENON_KERNEL(kNonMaxSuppressionV4Kernel) = Registration<Select<2>>("NonMaxSuppressionV4", kBoxes);
TENON_KERNEL(kNonMaxSuppressionV5Kernel) = Registration<Select<3>>("NonMaxSuppressionV5", kBoxes);
TENON_KERNEL(kNonMaxSuppressionWithOverlapsKernel) = Registration<SelectByOverlaps>("NonMaxSuppressionWithOverlaps",
                                                                                    kChooses);

TENON_OP(kNonMaxSuppression) = DefineOp({
    .name = "NonMaxSuppression",
    .inputs = "boxes: float, scores: float, max_output_size: int32",
    .outputs = "selected_indices: int32",
    .attrs = "iou_threshold: float = 0.5",
    .constraints = TENON_BOXES,
    .doc = "The best boxes, the best first, without those of which a better one covers more than iou_threshold.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BoxShape>,
});

TENON_OP(kNonMaxSuppressionV2) = DefineOp({
    .name = "NonMaxSuppressionV2",
    .inputs = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold",
    .outputs = "selected_indices: int32",
    .attrs = "T: {half, float} = float; T_threshold: {half, float} = float",
    .constraints = TENON_BOXES "; rank(iou_threshold) == 0",
    .doc = "The best boxes, the best first, without those of which a better one covers more than iou_threshold.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BoxShape>,
});

TENON_OP(kNonMaxSuppressionV3) = DefineOp({
    .name = "NonMaxSuppressionV3",
    .inputs = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, score_threshold: T_threshold",
    .outputs = "selected_indices: int32",
    .attrs = "T: {half, float} = float; T_threshold: {half, float} = float",
    .constraints = TENON_BOXES "; rank(iou_threshold) == 0; rank(score_threshold) == 0",
    .doc = "NonMaxSuppressionV2 of the boxes whose scores are above score_threshold.",
    .shape = ShapeFunction<BoxShape>,
});

TENON_OP(kNonMaxSuppressionV4) = DefineOp({
    .name = "NonMaxSuppressionV4",
    .inputs = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, score_threshold: T_threshold",
    .outputs = "selected_indices: int32, valid_outputs: int32",
    .attrs = "T: {half, float} = float; T_threshold: {half, float} = float; pad_to_max_output_size: bool = false",
    .constraints = TENON_BOXES "; rank(iou_threshold) == 0; rank(score_threshold) == 0",
    .doc = "NonMaxSuppressionV3, filled up with zeros where so asked, and how many there are without them.",
    .shape = ShapeFunction<PaddedShape<0>>,
});

TENON_OP(kNonMaxSuppressionV5) = DefineOp({
    .name = "NonMaxSuppressionV5",
    .inputs = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T, score_threshold: T, soft_nms_sigma: T",
    .outputs = "selected_indices: int32, selected_scores: T, valid_outputs: int32",
    .attrs = "T: {half, float} = float; pad_to_max_output_size: bool = false",
    .constraints = TENON_BOXES "; rank(iou_threshold) == 0; rank(score_threshold) == 0; rank(soft_nms_sigma) == 0",
    .doc = "NonMaxSuppressionV4; with a soft_nms_sigma above 0 a better box lowers the score of another, the more it "
           "covers of it.",
    .shape = ShapeFunction<PaddedShape<1>>,
});

TENON_OP(kNonMaxSuppressionWithOverlaps) = DefineOp({
    .name = "NonMaxSuppressionWithOverlaps",
    .inputs =
        "overlaps: float, scores: float, max_output_size: int32, overlap_threshold: float, score_threshold: float",
    .outputs = "selected_indices: int32",
    .constraints = "rank(overlaps) == 2; rank(scores) == 1; dim(overlaps, 0) == dim(scores, 0); dim(overlaps, 1) == "
                   "dim(scores, 0); rank(max_output_size) == 0; "
                   "rank(overlap_threshold) == 0; rank(score_threshold) == 0",
    .doc = "The best things whose scores are above score_threshold, without those that overlap a better one by more "
           "than overlap_threshold.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SelectShape>,
});

}  // namespace tenon::ops
