// SPDX-License-Identifier: Apache-2.0
// How a reader takes a file apart: lines, records of one length, TensorFlow's records, the whole, or nothing but its
// name.
#ifndef TENON_OPS_INPUT_FORMAT_H_
#define TENON_OPS_INPUT_FORMAT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops::input {

struct ReaderOptions {
  std::string op;    // "TextLineReader"
  std::string name;  // of the reader
  std::string compression;
  int64_t skip_header_lines = 0;
  int64_t header_bytes = 0, record_bytes = 0, footer_bytes = 0, hop_bytes = 0;
  bool operator==(const ReaderOptions&) const = default;
};

// One file at a time, one thread at a time. Failures are thrown; the record that failed is the next one again.
class Format {
 public:
  virtual ~Format() = default;
  // Both calls are made for a kernel's run, which pays for their memory and may give them up.
  virtual void Open(const std::string& path, const sdk::RunContext& c) = 0;
  // The next record and its key, which are "" before; false at the end.
  virtual bool Next(std::string& key, std::string& value, const sdk::RunContext& c) = 0;
  virtual void Close() = 0;
  // Whether a file is one record, so that between two records no file is begun.
  virtual bool single() const { return false; }
};

// INVALID_ARGUMENT for options that no reader has.
void CheckOptions(const ReaderOptions& options);
// Of options that were checked.
std::unique_ptr<Format> MakeFormat(const ReaderOptions& options);

// RESOURCE_EXHAUSTED where the session has no room for this many bytes, which a reader is about to keep on its own
// heap.
void CheckRoom(const sdk::RunContext& c, uint64_t bytes);

}  // namespace tenon::ops::input

#endif  // TENON_OPS_INPUT_FORMAT_H_
