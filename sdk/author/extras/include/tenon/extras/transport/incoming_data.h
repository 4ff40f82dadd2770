// SPDX-License-Identifier: Apache-2.0
// IncomingData: what a connection's other side sends with a key: where the host wants it, and the answer.
#ifndef TENON_SDK_TRANSPORT_INCOMING_DATA_H_
#define TENON_SDK_TRANSPORT_INCOMING_DATA_H_

#include <utility>

#include "tenon/extras/transport/peer_link.h"

namespace tenon::sdk {

// The pipe's reading thread alone. Data is answered by its receiver, so that a refusal reaches its sender.
class IncomingData {
 public:
  // It outlives this.
  explicit IncomingData(PeerLink* link) : link_(link) {}

  // Memory for the data, which then is there or not.
  void* Begin(HeadReader* head, uint64_t bytes);
  void End(bool complete);

 private:
  // That which comes in.
  struct Placed {
    uint64_t id = 0;
    void* token = nullptr;  // the host's
    bool placing = false;
    bool misplaced = false;
  };

  PeerLink* const link_;
  Placed placed_;
};

inline void* IncomingData::Begin(HeadReader* head, uint64_t bytes) {
  placed_ = {head->Number()};
  const tenon_span key = head->Text(), header = head->Text();
  if (!head->Complete() || key.size > TENON_TRANSPORT_MAX_KEY) return link_->BadHead("data");
  const auto& events = link_->endpoint()->events;
  if (events.place == nullptr || events.placed == nullptr) {
    return link_->Refuse(placed_.id, Failure(TENON_UNIMPLEMENTED, "this side takes no data"));
  }
  if (bytes > link_->endpoint()->max_message_bytes)
    return link_->Refuse(placed_.id, link_->TooLarge("data", bytes));
  tenon_bytes memory = {};
  if (tenon_status* refused =
          events.place(events.argument, link_->peer(), key, header, bytes, &memory, &placed_.token)) {
    return link_->Refuse(placed_.id, refused);
  }
  placed_.placing = true;
  placed_.misplaced = memory.size < bytes || (memory.data == nullptr && bytes != 0);
  return placed_.misplaced ? nullptr : memory.data;
}

inline void IncomingData::End(bool complete) {
  const Placed placed = std::exchange(placed_, {});
  if (!placed.placing) return;
  const auto fail = [&]() -> tenon_status* {
    if (placed.misplaced) return Failure(TENON_INTERNAL, "the receiver gave less memory than the data needs");
    if (complete) return nullptr;
    return Failure(TENON_UNAVAILABLE, "the connection to ", link_->name(), " was lost while data came");
  };
  if (complete) link_->WriteReply(placed.id, fail());
  const auto& events = link_->endpoint()->events;
  events.placed(events.argument, link_->peer(), placed.token, fail());
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_INCOMING_DATA_H_
