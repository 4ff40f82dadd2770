// SPDX-License-Identifier: Apache-2.0
// An event file of TensorBoard's: records of serialized Event messages, the first of which says the format. Any thread.
//
// What is added is written when more than so many events wait, or the oldest waits so long, by Flush(), and when the
// writer goes. A file that is there is never written over.
#ifndef TENON_OPS_SUMMARY_EVENT_FILE_H_
#define TENON_OPS_SUMMARY_EVENT_FILE_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/sdk/file/file.h"

namespace tenon::ops {

class EventFile {
 public:
  struct Options {
    std::string folder;  // made when it is missing
    std::string suffix;  // of the file's name
    int64_t most_waiting = 0;
    int64_t longest_ms = 0;
  };
  EventFile(const sdk::RunContext& c, const Options& options);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::string& path() const { return path_; }
  // A message of field `field` of an Event of this step, and of now.
  void Add(const sdk::RunContext& c, int64_t step, uint32_t field, std::string_view message);
  // A whole Event.
  void AddEvent(const sdk::RunContext& c, std::string_view event);
  void Flush();

 private:
  static constexpr size_t kMostBytes = 1 << 20;  // that wait
  static std::string NewPath(const tenon_files& files, const Options& options);
  void Write();  // under the mutex

  const Options options_;
  const std::string path_;
  std::mutex mutex_;  // guards what follows
  sdk::File file_;
  std::string waiting_;
  int64_t waiting_count_ = 0;
  uint64_t written_ns_ = 0;
  bool failed_ = false;  // nobody would read what follows a torn record
};

}  // namespace tenon::ops

#endif  // TENON_OPS_SUMMARY_EVENT_FILE_H_
