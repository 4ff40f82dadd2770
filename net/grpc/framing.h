// SPDX-License-Identifier: Apache-2.0
// Frames as bytes: 12 bytes (head's size, body's size), the head, the body, one frame after another.
//
// What a gRPC message holds is any piece of these bytes: several small frames, or a part of a large one. So a message
// has a bounded size, and small frames share one. The parser takes pieces as they come and copies a body once, into the
// sink's memory. Rule: the parser is used by one thread at a time; whatever bytes come, it reads and writes nothing
// outside of what it was given.
#ifndef TENON_NET_GRPC_FRAMING_H_
#define TENON_NET_GRPC_FRAMING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tenon/extras/transport/pipe.h"
#include "tenon/bytes/wire.h"

namespace tenon::grpc_net {

inline constexpr size_t kFrameHeader = 12;

// What comes before the body.
inline std::string FrameLead(std::string_view head, uint64_t body_bytes) {
  std::string out;
  out.reserve(kFrameHeader + head.size());
  sdk::PutFixed32(out, static_cast<uint32_t>(head.size()));
  sdk::PutFixed64(out, body_bytes);
  out += head;
  return out;
}

class FrameParser {
 public:
  // False: these bytes are no frames; nothing more may be fed.
  [[nodiscard]] bool Feed(std::string_view bytes, sdk::FrameSink* sink) {
    while (!bytes.empty()) {
      if (in_body_) {
        TakeBody(bytes, sink);
      } else if (!TakeHead(bytes, sink)) {
        return false;
      }
    }
    return true;
  }
  // No more bytes come.
  void Stop(sdk::FrameSink* sink) {
    if (in_body_) sink->End(false);
    in_body_ = false;
  }

 private:
  void TakeBody(std::string_view& bytes, sdk::FrameSink* sink) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(bytes.size(), body_left_));
    if (memory_ != nullptr) {
      std::memcpy(memory_, bytes.data(), count);
      memory_ += count;
    }
    bytes.remove_prefix(count);
    body_left_ -= count;
    EndIfWhole(sink);
  }

  // The header and head, which may come in pieces.
  bool TakeHead(std::string_view& bytes, sdk::FrameSink* sink) {
    if (!Gather(bytes, kFrameHeader)) return true;
    std::string_view sizes = partial_.empty() ? bytes : std::string_view(partial_);
    uint32_t head_bytes = 0;
    uint64_t body_bytes = 0;
    if (!sdk::TakeFixed32(sizes, &head_bytes) || !sdk::TakeFixed64(sizes, &body_bytes)) return false;
    if (head_bytes > sdk::kMaxFrameHead) return false;
    const size_t lead = kFrameHeader + head_bytes;
    if (!Gather(bytes, lead)) return true;
    const std::string_view whole = partial_.empty() ? bytes.substr(0, lead) : std::string_view(partial_);
    memory_ = static_cast<char*>(sink->Begin(whole.substr(kFrameHeader), body_bytes));
    if (partial_.empty()) bytes.remove_prefix(lead);
    partial_.clear();
    in_body_ = true;
    body_left_ = body_bytes;
    EndIfWhole(sink);
    return true;
  }

  // Whether `count` bytes of a lead are there: in `bytes`, when none came before, or else moved to partial_.
  bool Gather(std::string_view& bytes, size_t count) {
    if (partial_.empty() && bytes.size() >= count) return true;
    const size_t more = partial_.size() < count ? std::min(bytes.size(), count - partial_.size()) : 0;
    partial_.append(bytes.substr(0, more));
    bytes.remove_prefix(more);
    return partial_.size() >= count;
  }

  void EndIfWhole(sdk::FrameSink* sink) {
    if (body_left_ != 0) return;
    in_body_ = false;
    sink->End(true);
  }

  std::string partial_;
  bool in_body_ = false;
  char* memory_ = nullptr;
  uint64_t body_left_ = 0;
};

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_FRAMING_H_
