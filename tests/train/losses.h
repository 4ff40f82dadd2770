// SPDX-License-Identifier: Apache-2.0
// The losses that a training left in its event files.
#ifndef TENON_TESTS_TRAIN_LOSSES_H_
#define TENON_TESTS_TRAIN_LOSSES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "tenon/data/file.h"
#include "tenon/bytes/wire.h"
#include "tenon/train/event_file.h"

namespace tenon::train {

// By step, of one tag. A run that resumed wrote a file of its own, which begins anew after its checkpoint: what a
// killed run wrote beyond that does not count, as in TensorBoard.
inline std::map<int64_t, float> ValuesOfEvents(const std::string& folder, const std::string& wanted = "loss") {
  constexpr uint32_t kStep = 2, kSummary = 5, kSession = 7, kValue = 1, kTag = 1, kSimple = 2;
  std::map<int64_t, float> values;
  const Result<std::vector<std::string>> files = data::ListFolder(folder);  // sorted: by their time, and their number
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return values;
  for (const std::string& file : *files) {
    const Result<std::string> bytes = data::ReadFile(folder + "/" + file);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    RecordReader reader(*bytes);
    for (;;) {
      const Result<std::optional<std::string_view>> record = reader.Next();
      EXPECT_TRUE(record.ok()) << file << ": " << record.status();
      if (!record.ok() || !record->has_value()) break;
      const auto step = static_cast<int64_t>(sdk::FindNumber(**record, kStep));
      sdk::WireReader event(**record);
      while (event.Next()) {
        if (event.field() == kSession) values.erase(values.upper_bound(step), values.end());
        if (event.field() != kSummary) continue;
        sdk::WireReader summary(event.bytes());
        while (summary.Next()) {
          if (summary.field() != kValue || sdk::FindBytes(summary.bytes(), kTag) != wanted) continue;
          sdk::WireReader value(summary.bytes());
          while (value.Next())
            if (value.field() == kSimple) values[step] = value.as_float();
        }
      }
    }
  }
  return values;
}

}  // namespace tenon::train

#endif  // TENON_TESTS_TRAIN_LOSSES_H_
