// SPDX-License-Identifier: Apache-2.0
// Kernels of summaries: serialized Summary messages, which event files hold and TensorBoard shows. They run on the
// host.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <span>
#include <vector>

#include "encode.h"
#include "histogram.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/image/encode_png.h"
#include "tenon/extras/kernel/tensor_proto.h"
#include "tenon/bytes/wire.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Fields of Summary and of Summary.Value.
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5;

void PutTag(WireWriter* value, std::string_view tag) {
  if (!tag.empty()) value->Bytes(kTag, tag);
}
void Give(const RunContext& c, const WireWriter& summary) {
  SetStrings(c, 0, Dims(), std::vector<std::string_view>{summary.bytes()});
}

// Calls function(number) for each element, as a double.
template <class Function>
void ForEachNumber(const RunContext& c, const tenon_tensor_view& view, const Function& function) {
  CancelPoll poll(c);
  Numbers::And<bool>::Dispatch(view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0, count = Count(view); i < count; poll(20), ++i)
      function(static_cast<double>(Data<const T>(view)[i]));
  });
}

struct Scalars {
  void Run(RunContext c) const {
    const tenon_tensor_view &tags = c.input_view(0), &values = c.input_view(1);
    if (!std::ranges::equal(DimsOf(tags), DimsOf(values)))
      Fail(TENON_INVALID_ARGUMENT, "tags of shape ", DimsOf(tags), " for values of shape ", DimsOf(values));
    WireWriter summary;
    int64_t at = 0;
    ForEachNumber(c, values, [&](double number) {
      WireWriter value;
      PutTag(&value, StringAt(tags, at++));
      value.Float(kSimpleValue, static_cast<float>(number));
      summary.Bytes(kValue, value.bytes());
    });
    Give(c, summary);
  }
};

}  // namespace

std::string EncodeScalar(const RunContext& c, std::string_view tag, const tenon_tensor_view& number) {
  WireWriter value, summary;
  PutTag(&value, tag);
  ForEachNumber(c, number, [&](double one) { value.Float(kSimpleValue, static_cast<float>(one)); });
  summary.Bytes(kValue, value.bytes());
  return summary.bytes();
}

std::string EncodeHistogram(const RunContext& c, std::string_view tag, const tenon_tensor_view& values) {
  Histogram histogram;
  ForEachNumber(c, values, [&](double number) {
    if (!std::isfinite(number))
      Fail(TENON_INVALID_ARGUMENT, "histogram '", tag, "' has the value ", std::to_string(number));
    histogram.Add(number);
  });
  WireWriter value, summary;
  PutTag(&value, tag);
  value.Bytes(kHistogram, histogram.Encode());
  summary.Bytes(kValue, value.bytes());
  return summary.bytes();
}

namespace {

void Give(const RunContext& c, const std::string& summary) {
  SetStrings(c, 0, Dims(), std::vector<std::string_view>{summary});
}

struct Histograms {
  void Run(RunContext c) const { Give(c, EncodeHistogram(c, StringAt(c.input_view(0), 0), c.input_view(1))); }
};

std::string_view TagOf(std::string_view value) {
  WireReader reader(value);
  std::string_view tag;
  while (reader.Next())
    if (reader.field() == kTag) tag = reader.delimited();
  if (!reader.ok()) Fail(TENON_INVALID_ARGUMENT, "an input holds a value that is no Summary.Value");
  return tag;
}

struct Merge {
  void Run(RunContext c) const {
    std::set<std::string_view> tags;
    WireWriter merged;
    for (int32_t input = 0; input < c.input_count(); ++input)
      for (const std::string_view summary : StringsOf(c.input_view(input))) Append(summary, &tags, &merged);
    Give(c, merged);
  }
  static void Append(std::string_view summary, std::set<std::string_view>* tags, WireWriter* merged) {
    WireReader reader(summary);
    while (reader.Next()) {
      if (reader.field() != kValue) continue;
      const std::string_view value = reader.delimited(), tag = TagOf(value);
      // Values may be without a tag.
      if (!tag.empty() && !tags->insert(tag).second)
        Fail(TENON_INVALID_ARGUMENT, "tag '", tag, "' stands in two of the merged summaries");
      merged->Bytes(kValue, value);
    }
    if (!reader.ok()) Fail(TENON_INVALID_ARGUMENT, "an input holds a string that is no Summary");
  }
};

class ImageBatch {
 public:
  ImageBatch(const tenon_tensor_view& batch, std::span<const uint8_t> bad_color)
      : batch_(batch), bad_color_(bad_color) {}
  std::string Encode(const RunContext& c, std::string_view tag, int64_t most) const {
    const Dims dims = DimsOf(batch_);
    if (dims.size() != 4) Fail(TENON_INVALID_ARGUMENT, "Tensor must be 4-D with last dim 1, 3, or 4, not ", dims);
    const int64_t depth = dims[3], pixels = Multiply(dims[1], dims[2]);
    if (depth != 1 && depth != 3 && depth != 4)
      Fail(TENON_INVALID_ARGUMENT, "Tensor must be 4-D with last dim 1, 3, or 4, not ", dims);
    if (batch_.dtype != TENON_DT_UINT8 && static_cast<int64_t>(bad_color_.size()) < depth)
      Fail(TENON_INVALID_ARGUMENT, "expected depth <= bad_color.size, got depth = ", depth,
           ", bad_color.size = ", bad_color_.size());
    if (pixels == 0) Fail(TENON_INVALID_ARGUMENT, "images of shape ", dims, " have no pixels");
    WireWriter summary;
    for (int64_t i = 0; i < std::min(most, dims[0]); ++i) {
      WireWriter image, value;
      image.Varint(kHeight, static_cast<uint64_t>(dims[1]));
      image.Varint(kWidth, static_cast<uint64_t>(dims[2]));
      image.Varint(kColorspace, static_cast<uint64_t>(depth));
      const std::vector<uint8_t> bytes = PixelsOf(i * pixels, pixels, depth);
      image.Bytes(kEncoded, EncodePng(c, bytes.data(), dims[1], dims[2], depth, 8, -1));
      value.Bytes(kTag, Concat(tag, "/image", most > 1 ? Concat("/", i) : std::string()));
      value.Bytes(kImage, image.bytes());
      summary.Bytes(kValue, value.bytes());
    }
    return summary.bytes();
  }

 private:
  // Fields of Summary.Image and of Summary.Value.
  static constexpr uint32_t kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4, kImage = 4;

  std::vector<uint8_t> PixelsOf(int64_t first, int64_t pixels, int64_t depth) const {
    std::vector<uint8_t> out;
    Types<uint8_t, float, Half, double>::Dispatch(batch_.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* values = Data<const T>(batch_) + first * depth;
      if constexpr (std::is_same_v<T, uint8_t>) {
        out.assign(values, values + pixels * depth);
      } else {
        out = ScaledPixels(values, pixels, depth);
      }
    });
    return out;
  }
  template <class T>
  std::vector<uint8_t> ScaledPixels(const T* values, int64_t pixels, int64_t depth) const {
    const auto finite = [&](int64_t pixel) {
      return std::all_of(values + pixel * depth, values + (pixel + 1) * depth,
                         [](T each) { return std::isfinite(static_cast<double>(each)); });
    };
    float least = std::numeric_limits<float>::infinity(), most_of_all = -least;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      if (!finite(pixel)) continue;
      for (int64_t i = pixel * depth; i < (pixel + 1) * depth; ++i) {
        least = std::min(least, static_cast<float>(values[i]));
        most_of_all = std::max(most_of_all, static_cast<float>(values[i]));
      }
    }
    const bool centred = least < 0;
    const float largest = centred ? std::max(std::abs(least), std::abs(most_of_all)) : most_of_all;
    const T scale(largest < 1e-6f ? 0.0f : (centred ? 127.0f : 255.0f) / largest), offset(centred ? 128.0f : 0.0f);
    std::vector<uint8_t> out(static_cast<size_t>(pixels * depth));
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const bool good = finite(pixel);
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t i = pixel * depth + k;
        // Each step is rounded to the type, as the formula's would be.
        out[static_cast<size_t>(i)] = good ? static_cast<uint8_t>(static_cast<double>(T(T(values[i] * scale) + offset)))
                                           : bad_color_[static_cast<size_t>(k)];
      }
    }
    return out;
  }

  const tenon_tensor_view& batch_;
  const std::span<const uint8_t> bad_color_;
};

}  // namespace

std::string EncodeImages(const RunContext& c, std::string_view tag, const tenon_tensor_view& batch, int64_t most,
                         std::span<const uint8_t> bad_color) {
  return ImageBatch(batch, bad_color).Encode(c, tag, most);
}

namespace {

struct ImageSummaries {
  explicit ImageSummaries(CreateContext& c) : most(c.Int("max_images")) {
    const tenon_attr_value color = c.Raw("bad_color");
    if (!c.ok()) return;
    const auto& view = *static_cast<const tenon_tensor_view*>(color.data);
    if (view.dtype != TENON_DT_UINT8 || view.dl.ndim != 1)
      Fail(TENON_INVALID_ARGUMENT, "bad_color must be a vector of uint8; it is ", TypeName(view.dtype), " of shape ",
           DimsOf(view));
    bad_color.assign(Data<const uint8_t>(view), Data<const uint8_t>(view) + Count(view));
  }
  void Run(RunContext c) const {
    Give(c, EncodeImages(c, StringAt(c.input_view(0), 0), c.input_view(1), most, bad_color));
  }
  int64_t most;
  std::vector<uint8_t> bad_color;
};


constexpr uint32_t kNodeName = 7, kTensor = 8, kMetadata = 9;

std::string EncodeProto(const tenon_tensor_view& tensor) {
  std::string proto;
  proto.reserve(static_cast<size_t>(tensor_proto::SizeOf(tensor)));
  tensor_proto::ForEachPiece(tensor, [&](std::string_view piece) { proto += piece; });
  return proto;
}

}  // namespace

void CheckMessage(std::string_view bytes, const char* what) {
  WireReader reader(bytes);
  while (reader.Next()) {
  }
  if (!reader.ok()) Fail(TENON_INVALID_ARGUMENT, "a string of ", bytes.size(), " bytes is no ", what, " message");
}

std::string EncodeTensor(std::string_view tag, const tenon_tensor_view& tensor, std::string_view metadata) {
  CheckMessage(metadata, "SummaryMetadata");
  WireWriter value, summary;
  PutTag(&value, tag);
  value.Bytes(kTensor, EncodeProto(tensor));
  value.Bytes(kMetadata, metadata);
  summary.Bytes(kValue, value.bytes());
  return summary.bytes();
}

namespace {

// Under the node's name.
struct OldTensorSummary {
  explicit OldTensorSummary(CreateContext& c) : name(c.name()) {}
  void Run(RunContext c) const {
    WireWriter value, summary;
    value.Bytes(kNodeName, name);
    value.Bytes(kTensor, EncodeProto(c.input_view(0)));
    summary.Bytes(kValue, value.bytes());
    Give(c, summary);
  }
  std::string name;
};

struct TensorSummary {
  void Run(RunContext c) const {
    Give(c, EncodeTensor(StringAt(c.input_view(0), 0), c.input_view(1), StringAt(c.input_view(2), 0)));
  }
};

constexpr Traits kGivesSummary = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kScalarSummaryKernel) = Registration<Scalars>("ScalarSummary", kGivesSummary);
TENON_KERNEL(kHistogramSummaryKernel) = Registration<Histograms>("HistogramSummary", kGivesSummary);
TENON_KERNEL(kImageSummaryKernel) = Registration<ImageSummaries>("ImageSummary", kGivesSummary);
TENON_KERNEL(kTensorSummaryKernel) = Registration<OldTensorSummary>("TensorSummary", kGivesSummary);
TENON_KERNEL(kTensorSummaryV2Kernel) = Registration<TensorSummary>("TensorSummaryV2", kGivesSummary);
TENON_KERNEL(kMergeSummaryKernel) = Registration<Merge>("MergeSummary", kGivesSummary);

}  // namespace tenon::ops
