// SPDX-License-Identifier: Apache-2.0
// CombinedNonMaxSuppression: the best boxes of each class, and the best of those, for each image of a batch.
#include <string>

#include "suppression.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Found {
  const float* box;
  float score;
  int64_t kind;
};

struct Combine {
  explicit Combine(CreateContext& c) : pads(c.Bool("pad_per_class")), clips(c.Bool("clip_boxes")) {}

  void Run(RunContext c) const {
    const Sizes s(c, pads);
    const int64_t boxes[] = {s.batch, s.total, 4}, two[] = {s.batch, s.total};
    c.AllocOutput(0, boxes);
    for (int32_t i = 1; i < 3; ++i) c.AllocOutput(i, two);
    c.AllocOutput(3, {&s.batch, 1});
    const double cost = 20.0 * static_cast<double>(s.count * s.classes + s.total);
    c.ParallelFor(s.batch, cost, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) Give(c, s, n, BestOf(c, s, n));
    });
  }

 private:
  struct Sizes {
    Sizes(const RunContext& c, bool pads) {
      const Dims boxes = DimsOf(c.input_view(0)), scores = DimsOf(c.input_view(1));
      batch = boxes[0], count = boxes[1], kinds = boxes[2], classes = scores[2];
      if (kinds != 1 && kinds != classes)
        Fail(TENON_INVALID_ARGUMENT, "boxes must be of one class or of all ", classes, "; their shape is ", boxes);
      most = c.input<int32_t>(2)[0];
      total = c.input<int32_t>(3)[0];
      if (most <= 0) Fail(TENON_INVALID_ARGUMENT, "max_output_size_per_class must be positive; it is ", most);
      if (total <= 0) Fail(TENON_INVALID_ARGUMENT, "max_total_size must be positive; it is ", total);
      if (pads) total = std::min(total, Multiply(most, classes));
      rule = {c.input<float>(4)[0], c.input<float>(5)[0]};
      if (!(rule.overlap >= 0 && rule.overlap <= 1))
        Fail(TENON_INVALID_ARGUMENT, "iou_threshold must be in [0, 1]; it is ", std::to_string(rule.overlap));
    }
    int64_t batch, count, kinds, classes, most, total;
    Suppression<float> rule{};
  };

  static std::vector<Found> BestOf(const RunContext& c, const Sizes& s, int64_t n) {
    const float *boxes = c.input<float>(0) + n * s.count * s.kinds * 4,
                *scores = c.input<float>(1) + n * s.count * s.classes;
    std::vector<Found> found;
    std::vector<float> of_class(static_cast<size_t>(s.count));
    CancelPoll poll(c);
    for (int64_t k = 0; k < s.classes; ++k) {
      poll(s.count * 20 + 1);
      for (int64_t i = 0; i < s.count; ++i) of_class[static_cast<size_t>(i)] = scores[i * s.classes + k];
      const auto box = [&](int64_t i) { return boxes + (i * s.kinds + (s.kinds == 1 ? 0 : k)) * 4; };
      const Chosen<float> chosen = Suppress<float>(poll, of_class.data(), s.count, std::min(s.most, s.count), s.rule,
                                                   [&](int64_t i, int64_t j) { return OverlapOf(box(i), box(j)); });
      for (size_t i = 0; i < chosen.index.size(); ++i) found.push_back({box(chosen.index[i]), chosen.score[i], k});
    }
    std::stable_sort(found.begin(), found.end(), [&poll](const Found& a, const Found& b) {
      poll(10);
      return a.score > b.score;
    });
    return found;
  }
  void Give(const RunContext& c, const Sizes& s, int64_t n, const std::vector<Found>& found) const {
    const int64_t valid = std::min(s.total, static_cast<int64_t>(found.size()));
    float *boxes = c.output<float>(0) + n * s.total * 4, *scores = c.output<float>(1) + n * s.total,
          *classes = c.output<float>(2) + n * s.total;
    std::fill_n(boxes, s.total * 4, 0.0f);
    std::fill_n(scores, s.total, 0.0f);
    std::fill_n(classes, s.total, 0.0f);
    for (int64_t i = 0; i < valid; ++i) {
      const Found& one = found[static_cast<size_t>(i)];
      std::transform(one.box, one.box + 4, boxes + 4 * i,
                     [&](float x) { return clips ? std::max(std::min(x, 1.0f), 0.0f) : x; });
      scores[i] = one.score;
      classes[i] = static_cast<float>(one.kind);
    }
    c.output<int32_t>(3)[n] = static_cast<int32_t>(valid);
  }

  const bool pads, clips;
};

void CombinedShape(ShapeContext& c) {
  const Shape boxes = c.WithRank(0, 4), scores = c.WithRank(1, 3);
  const int64_t batch = c.Merge(boxes[0], scores[0], "the batches");
  c.Merge(boxes[1], scores[1], "the numbers of boxes and of scores");
  for (int i = 2; i < 6; ++i) c.WithRank(i, 0);
  const auto most = c.Integer(2), total = c.Integer(3);
  if (total.has_value() && *total <= 0) c.Invalid("max_total_size must be positive; it is ", *total);
  if (most.has_value() && *most <= 0) c.Invalid("max_output_size_per_class must be positive; it is ", *most);
  if (!c.ok()) return;
  int64_t size = total.value_or(kUnknown);
  if (c.Bool("pad_per_class")) {
    const int64_t all = most.has_value() ? c.Multiply(*most, scores[2]) : kUnknown;
    size = size < 0 || all < 0 ? kUnknown : std::min(size, all);
  }
  c.SetOutput(0, {batch, size, 4});
  c.SetOutput(1, {batch, size});
  c.SetOutput(2, {batch, size});
  c.SetOutput(3, {batch});
}

}  // namespace

TENON_KERNEL(kCombinedNonMaxSuppressionKernel) = Registration<Combine>("CombinedNonMaxSuppression",
                                                                       {.dynamic_outputs = TENON_DYNAMIC_ALL});

TENON_OP(kCombinedNonMaxSuppression) = DefineOp({
    .name = "CombinedNonMaxSuppression",
    .inputs = "boxes: float, scores: float, max_output_size_per_class: int32, max_total_size: int32, iou_threshold: "
              "float, score_threshold: float",
    .outputs = "nmsed_boxes: float, nmsed_scores: float, nmsed_classes: float, valid_detections: int32",
    .attrs = "pad_per_class: bool = false; clip_boxes: bool = true",
    .constraints = "rank(boxes) == 4; dim(boxes, 3) == 4; rank(scores) == 3; dim(boxes, 0) == dim(scores, 0); "
                   "dim(boxes, 1) == dim(scores, 1); "
                   "rank(max_output_size_per_class) == 0; rank(max_total_size) == 0; rank(iou_threshold) == 0; "
                   "rank(score_threshold) == 0",
    .doc = "The best boxes of all classes, by NonMaxSuppression within each class, filled up with zeros to "
           "max_total_size; and how many there are.",
    .shape = ShapeFunction<CombinedShape>,
});

}  // namespace tenon::ops
