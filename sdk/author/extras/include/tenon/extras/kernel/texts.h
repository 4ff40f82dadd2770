// SPDX-License-Identifier: Apache-2.0
// Texts that a kernel makes, one after the other, in memory that counts against the session's limit: how long they
// become stands in tensors that anybody may have written. Each piece asks whether the step was given up. One thread at
// a time; RESOURCE_EXHAUSTED, CANCELLED, thrown.
#ifndef TENON_SDK_KERNEL_TEXTS_H_
#define TENON_SDK_KERNEL_TEXTS_H_

#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::sdk {

class Texts {
 public:
  explicit Texts(const RunContext& c) : context_(c), poll_(c), memory_(c), bytes_(&memory_), ends_(&memory_) {}
  // Another piece of the text that End() ends.
  void Append(std::string_view piece) {
    Poll(piece.size());
    bytes_.append(piece);
  }
  void Append(size_t count, char byte) {
    Poll(count);
    bytes_.append(count, byte);
  }
  // Room for as many bytes of the text, which the caller fills before anything else is asked of this.
  char* Extend(size_t bytes) {
    Poll(bytes);
    bytes_.resize(bytes_.size() + bytes);
    return bytes_.data() + bytes_.size() - bytes;
  }
  void End() { ends_.push_back(bytes_.size()); }
  void Add(std::string_view text) {
    Append(text);
    End();
  }
  int64_t count() const { return static_cast<int64_t>(ends_.size()); }
  // What was appended since the last End(), valid until something is appended.
  std::string_view Begun() const { return std::string_view(bytes_).substr(ends_.empty() ? 0 : ends_.back()); }
  void Poll(size_t bytes) { poll_(static_cast<int64_t>(bytes / 4) + 20); }

  // As output `index`, named in dynamic_outputs; dims have count() elements.
  void Give(int32_t index, Dims dims) const {
    context_.AllocOutput(index, dims, bytes_.size());
    char* const base = context_.output<char>(index);
    auto* const cells = reinterpret_cast<tenon_string_cell*>(base);
    const uint64_t first = ends_.size() * sizeof(tenon_string_cell);
    uint64_t begin = 0;
    for (size_t i = 0; i < ends_.size(); begin = ends_[i++]) cells[i] = {first + begin, ends_[i] - begin};
    if (!bytes_.empty()) std::memcpy(base + first, bytes_.data(), bytes_.size());
  }

 private:
  RunContext context_;
  CancelPoll poll_;
  StepMemory memory_;
  std::pmr::string bytes_;
  std::pmr::vector<uint64_t> ends_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_TEXTS_H_
