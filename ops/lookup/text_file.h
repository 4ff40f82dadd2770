// SPDX-License-Identifier: Apache-2.0
// The entries of a table in a text file: one a line, of columns between delimiters.
#ifndef TENON_OPS_LOOKUP_TEXT_FILE_H_
#define TENON_OPS_LOOKUP_TEXT_FILE_H_

#include <memory_resource>
#include <string>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

struct TextFileOptions {
  static constexpr int64_t kWholeLine = -2, kLineNumber = -1;
  int64_t key_column = kWholeLine;  // or a column's number, from 0
  int64_t value_column = kLineNumber;
  int64_t lines = -1;  // how many are read; the file must have them. -1: all
  int64_t offset = 0;  // the number of the first line
  char delimiter = '\t';
};

// Keys and values as vectors.
class TextEntries {
 public:
  // memory: where they are kept; it outlives them.
  TextEntries(uint32_t key, uint32_t value, std::pmr::memory_resource* memory)
      : keys_(key, memory), values_(value, memory) {}
  // Valid as long as this.
  tenon_tensor_view keys() const { return keys_.view(); }
  tenon_tensor_view values() const { return values_.view(); }
  int64_t count() const { return keys_.count; }

 private:
  friend TextEntries ReadEntries(const sdk::RunContext&, const std::string&, const TextFileOptions&, uint32_t, uint32_t,
                                 std::pmr::memory_resource*);
  struct Column {
    Column(uint32_t of, std::pmr::memory_resource* memory) : dtype(of), bytes(memory), texts(memory) {}
    // INVALID_ARGUMENT: the text is no element of the type.
    void Add(std::string_view text);
    void AddNumber(int64_t number);
    void EndStrings();  // makes cells of the texts
    tenon_tensor_view view() const;
    uint32_t dtype;
    int64_t count = 0;
    std::pmr::vector<char> bytes;
    std::pmr::vector<std::pmr::string> texts;
  };
  Column keys_, values_;
};

// Errors name the file and the line. CANCELLED when the step is.
TextEntries ReadEntries(const sdk::RunContext& c, const std::string& path, const TextFileOptions& options, uint32_t key,
                        uint32_t value, std::pmr::memory_resource* memory);

}  // namespace tenon::ops

#endif  // TENON_OPS_LOOKUP_TEXT_FILE_H_
