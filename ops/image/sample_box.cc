// SPDX-License-Identifier: Apache-2.0
// SampleDistortedBoundingBox and V2: a random part of an image that shows enough of one of its boxes. Numbers are drawn
// in TensorFlow's order.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tenon/extras/kernel/random.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// One number after the other.
class Numbers32 {
 public:
  explicit Numbers32(const Philox& generator) : generator_(generator) {}
  uint32_t Next() {
    if (used_ == 4) {
      block_ = generator_.Next();
      used_ = 0;
    }
    return block_[used_++];
  }
  float Unit() { return UnitFloat(Next()); }
  // In [0, n), all as likely.
  uint32_t Below(uint32_t n) {
    if ((n & (n - 1)) == 0) return Next() & (n - 1);
    const uint32_t rest = (UINT32_MAX % n) + 1;
    uint32_t number = Next();
    while (number < rest) number = Next();
    return number % n;
  }

 private:
  Philox generator_;
  Philox::Block block_ = {};
  size_t used_ = 4;
};

struct Rectangle {
  int64_t left, top, right, bottom;
  float area() const { return static_cast<float>((right - left) * (bottom - top)); }
};
bool Empty(const Rectangle& r) { return r.left >= r.right || r.top >= r.bottom; }

struct Image {
  int32_t height, width;
};

// Sides of a rectangle of that aspect ratio whose area is in [least, most]; nothing: there is none.
struct Sides {
  int32_t height, width;
};
int32_t Round(float x) { return static_cast<int32_t>(std::lrint(x)); }

std::optional<Sides> SidesOf(const Image& image, float ratio, float least_share, float most_share, Numbers32& random) {
  if (most_share <= 0 || ratio <= 0 || image.width <= 0 || image.height <= 0 || least_share > most_share)
    return std::nullopt;
  const auto width = static_cast<float>(image.width), height = static_cast<float>(image.height);
  const float least = least_share * width * height, most = most_share * width * height;
  int32_t chosen = Round(std::sqrt(least / ratio)), highest = Round(std::sqrt(most / ratio));
  if (Round(static_cast<float>(highest) * ratio) > image.width) {
    constexpr float kNothing = 1e-7f;
    highest = static_cast<int32_t>((width + 0.5f - kNothing) / ratio);
    if (Round(static_cast<float>(highest) * ratio) > image.width) --highest;
  }
  highest = std::min(highest, image.height);
  chosen = std::min(chosen, highest);
  if (chosen < highest) chosen += static_cast<int32_t>(random.Below(static_cast<uint32_t>(highest - chosen + 1)));
  const auto sides = [&] { return Sides{chosen, Round(static_cast<float>(chosen) * ratio)}; };
  const auto area = [&] { return static_cast<float>(int64_t{sides().width} * sides().height); };
  // One more or one less makes up for rounding.
  if (area() < least) ++chosen;
  if (area() > most) --chosen;
  const Sides out = sides();
  if (area() < least || area() > most || out.width > image.width || out.height > image.height || out.width <= 0 ||
      out.height <= 0)
    return std::nullopt;
  return out;
}

std::optional<Rectangle> Place(const Image& image, const std::optional<Sides>& sides, Numbers32& random) {
  if (!sides.has_value()) return std::nullopt;
  const int64_t top =
      sides->height < image.height ? random.Below(static_cast<uint32_t>(image.height - sides->height)) : 0;
  const int64_t left = sides->width < image.width ? random.Below(static_cast<uint32_t>(image.width - sides->width)) : 0;
  return Rectangle{left, top, left + sides->width, top + sides->height};
}

bool ShowsEnough(const Rectangle& crop, float share, const std::vector<Rectangle>& boxes) {
  constexpr float kLeast = 1.0f;  // pixel
  if (crop.area() < kLeast) return false;
  return std::any_of(boxes.begin(), boxes.end(), [&](const Rectangle& box) {
    if (box.area() < kLeast) return false;  // TensorFlow's of two negative sides is positive too
    const Rectangle common = {std::max(crop.left, box.left), std::max(crop.top, box.top),
                              std::min(crop.right, box.right), std::min(crop.bottom, box.bottom)};
    const float shown = (Empty(common) ? 0.0f : common.area()) / box.area();
    return shown >= share;
  });
}

struct Sample {
  explicit Sample(CreateContext& c)
      : stream(c),
        share(c.Has("min_object_covered") ? c.Float("min_object_covered") : 0),
        attempts(c.Int("max_attempts")),
        whole(c.Bool("use_image_if_no_bounding_boxes")) {
    if (share < 0 && c.Has("min_object_covered"))
      c.Invalid("min_object_covered must not be negative; it is ", std::to_string(share));
    Read(c, "aspect_ratio_range", aspects);
    Read(c, "area_range", areas);
    if (areas[1] > 1) c.Invalid("area_range must be within (0, 1]; its end is ", std::to_string(areas[1]));
    if (attempts <= 0) c.Invalid("max_attempts must be positive; it is ", attempts);
  }
  void Run(RunContext c) const {
    const Image image = ImageOf(c.input_view(0));
    const float wanted = c.input_count() > 2 ? c.input<float>(2)[0] : share;
    if (!(wanted >= 0))
      Fail(TENON_INVALID_ARGUMENT, "min_object_covered must not be negative; it is ", std::to_string(wanted));
    const std::vector<Rectangle> boxes = BoxesOf(c, image);
    Numbers32 random(stream.Reserve4(attempts));
    CancelPoll poll(c);
    Rectangle crop = {0, 0, image.width, image.height};
    for (int64_t i = 0; i < attempts; ++i) {
      poll(100 + 10 * static_cast<int64_t>(boxes.size()));
      const float ratio = random.Unit() * (aspects[1] - aspects[0]) + aspects[0];
      const auto found = Place(image, SidesOf(image, ratio, areas[0], areas[1], random), random);
      if (!found.has_value() || !ShowsEnough(*found, wanted, boxes)) continue;
      crop = *found;
      break;
    }
    Give(c, image, crop);
  }

 private:
  static void Read(CreateContext& c, std::string_view attr, float* out) {
    const tenon_attr_value value = c.Raw(attr);
    if (!c.ok()) return;
    if (value.count != 2) return c.Invalid("attribute '", attr, "' must have two numbers; it has ", value.count);
    std::copy_n(static_cast<const float*>(value.data), 2, out);
    if (!(out[0] > 0 && out[1] > 0))
      c.Invalid("attribute '", attr, "' must be positive; it is ", std::to_string(out[0]), " and ",
                std::to_string(out[1]));
  }
  static Image ImageOf(const tenon_tensor_view& size) {
    if (Count(size) != 3)
      Fail(TENON_INVALID_ARGUMENT, "image_size must be height, width and channels; its shape is ", DimsOf(size));
    const auto at = [&](int64_t i) { return IndexAt(Data<const void>(size), size.dtype, i); };
    if (at(0) < 0 || at(1) < 0 || at(0) > INT32_MAX || at(1) > INT32_MAX)
      Fail(TENON_INVALID_ARGUMENT, "an image of ", at(1), " x ", at(0), " pixels has no part");
    return {static_cast<int32_t>(at(0)), static_cast<int32_t>(at(1))};
  }
  std::vector<Rectangle> BoxesOf(const RunContext& c, const Image& image) const {
    const int64_t count = Count(c.input_view(1)) / 4;
    std::vector<Rectangle> boxes;
    if (count == 0 && !whole)
      Fail(TENON_INVALID_ARGUMENT,
           "bounding_boxes has none; use_image_if_no_bounding_boxes takes the whole image instead");
    if (count == 0) boxes.push_back({0, 0, image.width, image.height});
    for (int64_t i = 0; i < count; ++i) {
      const float* box = c.input<float>(1) + 4 * i;
      for (int k = 0; k < 4; ++k) {
        if (!(box[k] >= 0 && box[k] <= 1))
          Fail(TENON_INVALID_ARGUMENT, "bounding box ", i, " must be within [0, 1]; it has ", std::to_string(box[k]));
      }
      const auto pixel = [](float share, int32_t size) {
        return static_cast<int64_t>(share * static_cast<float>(size));
      };
      boxes.push_back({pixel(box[1], image.width), pixel(box[0], image.height), pixel(box[3], image.width),
                       pixel(box[2], image.height)});
    }
    return boxes;
  }
  static void Give(const RunContext& c, const Image& image, const Rectangle& crop) {
    Types<uint8_t, int8_t, int16_t, int32_t, int64_t>::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const int64_t begin[] = {crop.top, crop.left, 0}, size[] = {crop.bottom - crop.top, crop.right - crop.left, -1};
      for (int i = 0; i < 3; ++i) {
        c.output<T>(0)[i] = static_cast<T>(begin[i]);
        c.output<T>(1)[i] = static_cast<T>(size[i]);
      }
    });
    const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
    const float box[] = {static_cast<float>(crop.top) / height, static_cast<float>(crop.left) / width,
                         static_cast<float>(crop.bottom) / height, static_cast<float>(crop.right) / width};
    std::copy_n(box, 4, c.output<float>(2));
  }

  struct Attempts : Stream {
    using Stream::Stream;
    // Four numbers an attempt, which are a block.
    Philox Reserve4(int64_t attempts) const {
      Philox generator(seed[0], seed[1]);
      generator.Skip(used.fetch_add(static_cast<uint64_t>(attempts), std::memory_order_relaxed));
      return generator;
    }
  } stream;
  const float share;
  const int64_t attempts;
  const bool whole;
  float aspects[2] = {1, 1}, areas[2] = {1, 1};
};

void SampleShape(ShapeContext& c) {
  c.Merge(c.WithRank(0, 1)[0], 3, "the numbers of image_size and 3");
  c.Merge(c.WithRank(1, 3)[2], 4, "the numbers of a box and 4");
  c.SetOutput(0, {3});
  c.SetOutput(1, {3});
  c.SetOutput(2, {1, 1, 4});
}

constexpr Traits kDraws = {.flags = TENON_KERNEL_STATEFUL};

}  // namespace

TENON_KERNEL(kSampleDistortedBoundingBoxKernel) = Registration<Sample>("SampleDistortedBoundingBox", kDraws);
TENON_KERNEL(kSampleDistortedBoundingBoxV2Kernel) = Registration<Sample>("SampleDistortedBoundingBoxV2", kDraws);

TENON_OP(kSampleDistortedBoundingBox) = DefineOp({
    .name = "SampleDistortedBoundingBox",
    .inputs = "image_size: T, bounding_boxes: float",
    .outputs = "begin: T, size: T, bboxes: float",
    .attrs =
        "T: {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0; min_object_covered: float = 0.1; "
        "aspect_ratio_range: list(float) = [0.75, "
        "1.33]; "
        "area_range: list(float) = [0.05, 1.0]; max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = false",
    .constraints =
        "rank(image_size) == 1; dim(image_size, 0) == 3; rank(bounding_boxes) == 3; dim(bounding_boxes, 2) == 4",
    .doc = "A random part of an image that shows min_object_covered of one of its boxes at least: begin and size for "
           "Slice, and where it is, of 1.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SampleShape>,
});

TENON_OP(kSampleDistortedBoundingBoxV2) = DefineOp({
    .name = "SampleDistortedBoundingBoxV2",
    .inputs = "image_size: T, bounding_boxes: float, min_object_covered: float",
    .outputs = "begin: T, size: T, bboxes: float",
    .attrs = "T: {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0; aspect_ratio_range: list(float) = "
             "[0.75, 1.33]; area_range: list(float) = "
             "[0.05, 1.0]; "
             "max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = false",
    .constraints = "rank(image_size) == 1; dim(image_size, 0) == 3; rank(bounding_boxes) == 3; dim(bounding_boxes, 2) "
                   "== 4; rank(min_object_covered) == 0",
    .doc = "SampleDistortedBoundingBox, with min_object_covered as an input.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SampleShape>,
});

}  // namespace tenon::ops
