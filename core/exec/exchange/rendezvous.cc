// SPDX-License-Identifier: Apache-2.0
#include "core/exec/exchange/rendezvous.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <new>
#include <optional>

#include "core/base/checked.h"
#include "core/tensor/same_dims.h"

namespace tenon::exec {

Result<Message> Message::Of(const tenon_tensor_view& view, BufferPool* pool) {
  const tenon_shape shape{view.dl.shape, view.dl.ndim, 0};
  // Variants never change where they lie.
  const bool lasts = (view.flags & TENON_VIEW_READ_ONLY) != 0 || view.dtype == TENON_DT_VARIANT;
  if (view.buffer != nullptr && (lasts || (IsUnique(view.buffer) && IsUnique(HomeOf(view.buffer))))) {
    tenon_tensor_view shared = view;
    if (SameDims(*view.buffer, shape)) Retain(view.buffer);
    else shared.buffer = pool->Alias(view.buffer, shape);
    shared.dl.shape = shared.buffer->dims;
    return Message(shared);
  }
  const uint64_t extra = view.dtype == TENON_DT_STRING ? StringBytes(view) : 0;
  TENON_ASSIGN_OR_RETURN(Buffer * buffer, pool->Allocate(view.byte_size + extra, shape));
  if (IsPlain(view.dtype)) {
    if (view.byte_size > 0) std::memcpy(buffer->data, DataOf(view), view.byte_size);
  } else {
    CopyElements(view, buffer->data);
  }
  return Message(MakeView(view.dtype, {buffer->dims, buffer->rank, 0}, buffer->data, view.byte_size, buffer));
}

size_t Rendezvous::Hash::operator()(const RendezvousKey& key) const {
  uint64_t hash = static_cast<uint64_t>(key.channel);
  for (int64_t turn : key.turns) hash = (hash ^ static_cast<uint64_t>(turn)) * 0x9E3779B97F4A7C15u + (hash >> 29);
  return hash;
}

Rendezvous::~Rendezvous() { Clear(); }

std::string Rendezvous::Describe(const RendezvousKey& key) const {
  std::string text = StrCat("channel ", key.channel);
  if (Within(key.channel, names_->size())) text += StrCat(" ('", (*names_)[key.channel], "')");
  for (int32_t i = 0; i < key.depth; ++i) text += StrCat(i == 0 ? ", turn " : "/", key.turns[i]);
  return text;
}

void Rendezvous::Put(const RendezvousKey& key, Entry entry) {
  if (spare_.empty()) {
    table_.emplace(key, std::move(entry));
    return;
  }
  Table::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = key;
  node.mapped() = std::move(entry);
  table_.insert(std::move(node));
}

Rendezvous::Entry Rendezvous::TakeOut(Table::iterator at) {
  Entry entry = std::move(at->second);
  at->second = {};
  try {
    spare_.push_back(table_.extract(at));
  } catch (const std::bad_alloc&) {  // then it goes; the entry must not
  }
  return entry;
}

Status Rendezvous::Send(const RendezvousKey& key, Message message) {
  Receiver receiver;
  {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return aborted_;
    const auto at = table_.find(key);
    if (at != table_.end() && !at->second.receiver) return AlreadyExists(StrCat(Describe(key), " was sent twice"));
    ++counts_.messages;
    if (message.dead()) ++counts_.dead;
    else counts_.bytes += message.view().byte_size;
    if (at == table_.end()) {
      Put(key, {std::move(message), {}});
      return Status::Ok();
    }
    receiver = TakeOut(at).receiver;
  }
  receiver(std::move(message));
  return Status::Ok();
}

void Rendezvous::Receive(const RendezvousKey& key, Receiver receiver) {
  std::optional<Result<Message>> answer;
  {
    std::lock_guard lock(mutex_);
    const auto at = table_.find(key);
    if (!aborted_.ok()) {
      answer = aborted_;
    } else if (at == table_.end()) {
      return Put(key, {Message(), std::move(receiver)});
    } else if (at->second.receiver) {
      answer = AlreadyExists(StrCat(Describe(key), " is received twice"));
    } else {
      answer = std::move(TakeOut(at).message);
    }
  }
  receiver(*std::move(answer));
}

Result<Message> Rendezvous::Await(const RendezvousKey& key, uint64_t deadline_ns) {
  struct Waiting {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Result<Message>> answer;
  };
  Waiting waiting;
  Receive(key, [&waiting](Result<Message> message) {
    std::lock_guard lock(waiting.mutex);
    waiting.answer = std::move(message);
    waiting.came.notify_one();
  });
  std::unique_lock lock(waiting.mutex);
  const auto done = [&waiting] { return waiting.answer.has_value(); };
  if (deadline_ns == 0) {
    waiting.came.wait(lock, done);
    return *std::move(waiting.answer);
  }
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  if (waiting.came.wait_until(lock, deadline, done)) return *std::move(waiting.answer);
  lock.unlock();
  if (Cancel(key)) return Status(Code::kDeadlineExceeded, StrCat(Describe(key), " was not sent in time"));
  lock.lock();
  waiting.came.wait(lock, done);  // it is being handed over
  return *std::move(waiting.answer);
}

bool Rendezvous::Cancel(const RendezvousKey& key) {
  std::lock_guard lock(mutex_);
  const auto at = table_.find(key);
  if (at == table_.end() || !at->second.receiver) return false;
  (void)TakeOut(at);
  return true;
}

void Rendezvous::Abort(Status status) {
  Table waiting;  // takes no memory: who waits must hear of it
  {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return;
    aborted_ = std::move(status);
    waiting.swap(table_);
  }
  for (const auto& [key, entry] : waiting)
    if (entry.receiver) entry.receiver(aborted_);
}

void Rendezvous::Clear() {
  std::lock_guard lock(mutex_);
  table_.clear();
  aborted_ = Status::Ok();
}

Rendezvous::Counts Rendezvous::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

bool Rendezvous::Has(const RendezvousKey& key) const {
  std::lock_guard lock(mutex_);
  const auto at = table_.find(key);
  return at != table_.end() && !at->second.receiver;
}

size_t Rendezvous::waiting() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [key, entry] : table_) count += !entry.receiver;
  return count;
}

}  // namespace tenon::exec
