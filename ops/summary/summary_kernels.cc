// SPDX-License-Identifier: Apache-2.0
// Kernels of summaries: serialized Summary messages, which event files hold and TensorBoard shows. They run on the host.
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "histogram.h"
#include "tenon/sdk/element.h"
#include "tenon/sdk/string_tensor.h"
#include "tenon/sdk/wire.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Fields of Summary and of Summary.Value.
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5;

void PutTag(WireWriter* value, std::string_view tag) {
  if (!tag.empty()) value->Bytes(kTag, tag);
}
void Give(const RunContext& c, const WireWriter& summary) { SetStrings(c, 0, Dims(), std::vector<std::string_view>{summary.text()}); }

// Calls function(number) for each element, as a double.
template <class Function>
void ForEachNumber(const tenon_tensor_view& view, const Function& function) {
  Numbers::Dispatch(view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < Count(view); ++i) function(static_cast<double>(Data<const T>(view)[i]));
  });
}

struct Scalars {
  void Run(RunContext c) const {
    const tenon_tensor_view &tags = c.input_view(0), &values = c.input_view(1);
    if (!std::ranges::equal(DimsOf(tags), DimsOf(values)))
      Fail(TENON_INVALID_ARGUMENT, "tags of shape ", DimsOf(tags), " for values of shape ", DimsOf(values));
    WireWriter summary;
    int64_t at = 0;
    ForEachNumber(values, [&](double number) {
      WireWriter value;
      PutTag(&value, StringAt(tags, at++));
      value.Fixed32(kSimpleValue, std::bit_cast<uint32_t>(static_cast<float>(number)), true);
      summary.Bytes(kValue, value.text());
    });
    Give(c, summary);
  }
};

struct Histograms {
  void Run(RunContext c) const {
    Histogram histogram;
    ForEachNumber(c.input_view(1), [&](double number) {
      if (!std::isfinite(number)) Fail(TENON_INVALID_ARGUMENT, "histogram '", StringAt(c.input_view(0), 0), "' has the value ", std::to_string(number));
      histogram.Add(number);
    });
    WireWriter value, summary;
    PutTag(&value, StringAt(c.input_view(0), 0));
    value.Bytes(kHistogram, histogram.Encode());
    summary.Bytes(kValue, value.text());
    Give(c, summary);
  }
};

std::string_view TagOf(std::string_view value) {
  WireReader reader(value);
  std::string_view tag;
  while (reader.Next())
    if (reader.field() == kTag) tag = reader.bytes();
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
      const std::string_view value = reader.bytes(), tag = TagOf(value);
      // Values may be without a tag.
      if (!tag.empty() && !tags->insert(tag).second) Fail(TENON_INVALID_ARGUMENT, "tag '", tag, "' stands in two of the merged summaries");
      merged->Bytes(kValue, value);
    }
    if (!reader.ok()) Fail(TENON_INVALID_ARGUMENT, "an input holds a string that is no Summary");
  }
};

constexpr Traits kGives = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

extern constinit const tenon_kernel_registration kScalarSummaryKernel = Registration<Scalars>("ScalarSummary", kGives);
extern constinit const tenon_kernel_registration kHistogramSummaryKernel = Registration<Histograms>("HistogramSummary", kGives);
extern constinit const tenon_kernel_registration kMergeSummaryKernel = Registration<Merge>("MergeSummary", kGives);

}  // namespace tenon::ops
