// SPDX-License-Identifier: Apache-2.0
// The text of a calibration: which values a graph's tensors had. A head, then a line for each tensor:
//
//   tenon calibration 1
//   # what follows is a remark
//   conv1/Relu:0 Relu 0 6.25
//
// the tensor's name with its output's number, the op that made it (- where that is not known), the least and the
// largest element (or inf, -inf, nan). `tenon run --calibrate` and the C++ API (tenon/host/calibration.h) write it.
#ifndef TENON_PASSES_INT8_CALIBRATION_H_
#define TENON_PASSES_INT8_CALIBRATION_H_

#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/op/graph_pass.h"

namespace tenon::passes {

struct CalibratedRange {
  std::string op;
  float low, high;
};

class Calibration {
 public:
  // What is wrong with the text is p's failure.
  Calibration(sdk::PassContext& p, std::string_view text) {
    constexpr std::string_view kHead = "tenon calibration 1";
    int64_t number = 0;
    while (!text.empty() && p.ok()) {
      const size_t end = std::min(text.size(), text.find('\n'));
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(text.size(), end + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (++number == 1) {
        if (line != kHead)
          p.Invalid("the calibration does not begin with '", kHead, "'; `tenon run --calibrate` writes one");
        continue;
      }
      if (!line.empty() && !line.starts_with('#')) Add(p, line, number);
    }
    if (number == 0) p.Invalid("the calibration is empty; `tenon run --calibrate` writes one");
  }
  const CalibratedRange* Find(const std::string& tensor) const {
    const auto found = ranges_.find(tensor);
    return found == ranges_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, CalibratedRange, std::less<>>& ranges() const { return ranges_; }

 private:
  void Add(sdk::PassContext& p, std::string_view line, int64_t number) {
    std::vector<std::string_view> words;
    for (size_t at = 0; at < line.size();) {
      const size_t begin = std::min(line.size(), line.find_first_not_of(' ', at));
      at = std::min(line.size(), line.find(' ', begin));
      if (begin < at) words.push_back(line.substr(begin, at - begin));
    }
    CalibratedRange range{};
    if (words.size() != 4 || !Number(words[2], &range.low) || !Number(words[3], &range.high))
      return p.Invalid("line ", number, " of the calibration is '", line.substr(0, 100),
                       "'; a line is a tensor's name, its op, the least and the largest number");
    range.op = words[1];
    if (!ranges_.emplace(words[0], std::move(range)).second)
      p.Invalid("line ", number, " of the calibration has '", words[0], "' a second time");
  }
  static bool Number(std::string_view text, float* out) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  }
  std::map<std::string, CalibratedRange, std::less<>> ranges_;
};

}  // namespace tenon::passes

#endif  // TENON_PASSES_INT8_CALIBRATION_H_
