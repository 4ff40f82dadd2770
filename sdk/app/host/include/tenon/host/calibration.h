// SPDX-License-Identifier: Apache-2.0
// The ranges that a graph's values have, found by looking on: what sessions of Precision::kInt8 need.
//
//   Calibrator calibrator;
//   SessionOptions watched{.optimize = false, .watch = true};  // where every node runs by itself, in floats
//   for (const auto& batch : batches) {
//     TENON_TRY(calibrator.Feed("x", View(batch)));
//     TENON_TRY(session.Run({{"x", View(batch)}}, {y}, {}, {.watch = calibrator.Watch()}).status());
//   }
//   SessionOptions options{.precision = Precision::kInt8, .calibration = calibrator.Text()};
//
// A range is from the least to the largest element of all batches. Nothing that was seen is cut off, the order of the
// batches is of no account, and the same batches give the same text; percentiles or moving averages would need a choice
// of what may be lost. Batches should be what the graph will see: what lies outside of the ranges goes to their ends.
#ifndef TENON_HOST_CALIBRATION_H_
#define TENON_HOST_CALIBRATION_H_

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "tenon/host/session.h"

namespace tenon::host {

// Copies share what was found. Any thread, several at once.
class Calibrator {
 public:
  // For RunOptions::watch. Values that are no float32 are passed over.
  std::function<Status(const Watched&)> Watch() const {
    return [found = found_](const Watched& made) {
      if (made.value.dtype == TENON_DT_FLOAT)
        found->Widen(std::string(made.node) + ":" + std::to_string(made.output), made.op, made.value);
      return Status();
    };
  }
  // A value that is fed, which no kernel makes: "x" or "x:0".
  void Feed(std::string_view tensor, const View& value) {
    if (value.c_view().dtype != TENON_DT_FLOAT) return;
    const bool numbered = tensor.rfind(':') != std::string_view::npos;
    found_->Widen(std::string(tensor) + (numbered ? "" : ":0"), "-", value.c_view());
  }
  size_t size() const {
    const std::lock_guard lock(found_->mutex);
    return found_->ranges.size();
  }
  // As SessionOptions::calibration. remark: a line or more of text that goes into it, of no account; "": none.
  std::string Text(std::string_view remark = {}) const {
    const std::lock_guard lock(found_->mutex);
    std::string text = "tenon calibration 1\n";
    while (!remark.empty()) {
      const size_t end = std::min(remark.size(), remark.find('\n'));
      text += "# " + std::string(remark.substr(0, end)) + "\n";
      remark.remove_prefix(std::min(remark.size(), end + 1));
    }
    for (const auto& [tensor, range] : found_->ranges)
      text += tensor + " " + range.op + " " + Number(range.low) + " " + Number(range.high) + "\n";
    return text;
  }

 private:
  struct Range {
    std::string op;
    // NaN: one was seen
    float low = std::numeric_limits<float>::infinity(), high = -std::numeric_limits<float>::infinity();
  };
  struct Found {
    void Widen(const std::string& tensor, std::string_view op, const tenon_tensor_view& value) {
      const auto* const elements =
          reinterpret_cast<const float*>(static_cast<const char*>(value.dl.data) + value.dl.byte_offset);
      const size_t count = value.byte_size / sizeof(float);
      Range seen;
      bool numbers = true;
      for (size_t i = 0; i < count; ++i) {
        seen.low = elements[i] < seen.low ? elements[i] : seen.low;
        seen.high = elements[i] > seen.high ? elements[i] : seen.high;
        numbers &= elements[i] == elements[i];
      }
      if (!numbers) seen.low = seen.high = std::numeric_limits<float>::quiet_NaN();
      const std::lock_guard lock(mutex);
      const auto [at, is_new] = ranges.try_emplace(tensor, Range{std::string(op)});
      Range& range = at->second;
      if (std::isnan(range.low)) return;
      range.low = numbers ? std::min(range.low, seen.low) : seen.low;
      range.high = numbers ? std::max(range.high, seen.high) : seen.high;
    }
    std::mutex mutex;
    std::map<std::string, Range> ranges;
  };
  static std::string Number(float value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof(text), value).ptr};
  }
  std::shared_ptr<Found> found_ = std::make_shared<Found>();
};

}  // namespace tenon::host

#endif  // TENON_HOST_CALIBRATION_H_
