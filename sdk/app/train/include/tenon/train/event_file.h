// SPDX-License-Identifier: Apache-2.0
// Event files: what TensorBoard shows, in TensorFlow's format.
//
// A file is records: uint64 length, masked crc32c of the length, the bytes, masked crc32c of the bytes (TFRecord). Each
// record is a serialized Event; the first says "brain.Event:2". Names:
// <folder>/events.out.tfevents.<seconds>.<host>.<process>.<number of six digits>, where the seconds are later than the
// time if files would else not sort in the order in which they were begun. A writer appends; a crash loses at most what
// was not flushed, and a reader takes a torn tail as the end.
#ifndef TENON_TRAIN_EVENT_FILE_H_
#define TENON_TRAIN_EVENT_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

// Appends one framed record.
void AppendRecord(std::string& out, std::string_view data);

// Walks over framed records.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes) {}
  // The next record; nullopt at the end. DATA_LOSS when a checksum is wrong; a torn tail is the end (see torn()).
  Result<std::optional<std::string_view>> Next();
  bool torn() const { return torn_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool torn_ = false;
};

class EventWriter {
 public:
  // Makes the folder when it is missing, and a new file in it.
  static Result<EventWriter> Create(const std::string& folder);
  EventWriter(EventWriter&& other) noexcept = default;
  EventWriter& operator=(EventWriter&& other) noexcept = default;
  ~EventWriter();  // flushes

  const std::string& path() const { return path_; }
  // A serialized GraphDef.
  Status AddGraph(std::string_view graph_def);
  // Tags and values at a step.
  Status AddScalars(int64_t step, const std::vector<std::pair<std::string, float>>& values);
  // A serialized Summary, as the summary ops give it: of histograms, of merged ones.
  Status AddSummary(int64_t step, std::string_view summary);
  // Says that a run begins again at this step: viewers drop what a killed run wrote at this step and later.
  Status AddStart(int64_t step);
  // A checkpoint was written.
  Status AddCheckpoint(int64_t step, std::string_view checkpoint_path);
  // Gives what was added to the file system. Done by itself every 64 KiB and at the end. A failure stays.
  Status Flush();

 private:
  EventWriter(host::File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Status Add(int64_t step, uint32_t field, std::string_view message);

  host::File file_;
  std::string path_;
  std::string pending_;
  Status failed_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_EVENT_FILE_H_
