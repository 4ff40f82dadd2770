// SPDX-License-Identifier: Apache-2.0
#include "pipe.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tenon::shm {
namespace {

constexpr uint64_t kMaxCopied = uint64_t{16} << 20;  // bodies that wait for room in memory of the pipe's own
constexpr uint64_t kMaxQueued = uint64_t{64}
                                << 20;  // of all that waits: a peer that does not read may not fill this side's memory
constexpr uint64_t kWaitingBytes = 256;              // of a waiting frame itself
constexpr uint64_t kReadAtOnce = uint64_t{8} << 20;
constexpr uint64_t kReadElsewhere = uint64_t{4}
                                    << 20;  // what is larger is not read on the thread that others' messages wait for
constexpr uint64_t kReadByTwo = uint64_t{8} << 20;
constexpr int kRecordsAVisit = 64;
constexpr uint64_t kPage = 4096;

uint64_t TotalOf(std::span<const tenon_span> body) {
  uint64_t total = 0;
  for (const tenon_span& piece : body) total += piece.size;
  return total;
}

}  // namespace

ShmPipe::ShmPipe(Meeting meeting, std::shared_ptr<Reader> reader)
    : meeting_(std::move(meeting)),
      reader_(std::move(reader)),
      out_(meeting_.segment->Writer(meeting_.made_here ? 0 : 1)),
      in_(meeting_.segment->Reader(meeting_.made_here ? 1 : 0)) {}

void ShmPipe::Start(sdk::FrameSink* sink) {
  sink_ = sink;
  reader_->Add(this, meeting_.socket.get());
}

// ---- Writing ----

void ShmPipe::Write(std::string_view head, std::span<const tenon_span> body, Written written, void* argument) {
  const uint64_t bytes = TotalOf(body);
  bool ok = false;
  {
    const std::lock_guard guard(out_lock_);
    ok = !closed_ && !out_.broken();
    bool put = false;
    if (ok && queue_.empty() && Lends(bytes, body.size())) {
      put = PutLent(head, body, bytes, written, argument);
      if (put) written = nullptr;
    } else if (ok && queue_.empty() && bytes <= kMaxWhole) {
      put = PutWhole(head, body, bytes);
    }
    if (ok && !put) Enqueue(head, body, bytes, &written, argument);
    if (put) Wake();
  }
  if (pending_) Pump();
  if (written != nullptr) written(argument, ok);
}

bool ShmPipe::Lends(uint64_t bytes, uint64_t pieces) const {
  return bytes >= kMinLent && meeting_.peer_reads && pieces <= kMaxPieces;
}

bool ShmPipe::PutRecord(Record record, std::string_view head, std::span<const tenon_span> body) {
  const uint64_t payload = head.size() + TotalOf(body);
  const uint64_t size = RecordBytes(payload);
  if (!out_.Fits(size)) return false;
  record.payload_bytes = static_cast<uint32_t>(payload);
  record.head_bytes = static_cast<uint32_t>(head.size());
  char* to = out_.at();
  std::memcpy(to, &record, sizeof record);
  to += sizeof record;
  if (!head.empty()) std::memcpy(to, head.data(), head.size());
  to += head.size();
  for (const tenon_span& piece : body) {
    if (piece.size != 0) std::memcpy(to, piece.data, piece.size);
    to += piece.size;
  }
  out_.Publish(size);
  return true;
}

bool ShmPipe::PutWhole(std::string_view head, std::span<const tenon_span> body, uint64_t bytes) {
  return PutRecord({RecordKind::kWhole, 0, 0, 0, bytes, 0}, head, body);
}

bool ShmPipe::PutLent(std::string_view head, std::span<const tenon_span> body, uint64_t bytes, Written written,
                      void* argument) {
  std::vector<Piece> pieces;
  for (const tenon_span& piece : body) {
    if (piece.size != 0) pieces.push_back({reinterpret_cast<uint64_t>(piece.data), piece.size});
  }
  const tenon_span list = {reinterpret_cast<const char*>(pieces.data()), pieces.size() * sizeof(Piece)};
  lent_.push_back({last_lent_ + 1, written, argument});
  if (!PutRecord({RecordKind::kLent, 0, 0, 0, bytes, last_lent_ + 1}, head, {&list, 1})) {
    lent_.pop_back();
    return false;
  }
  ++last_lent_;
  return true;
}

// Small bodies are copied, so that a caller has its memory back whatever the other side does. *written: not to be
// called now.
void ShmPipe::Enqueue(std::string_view head, std::span<const tenon_span> body, uint64_t bytes, Written* written,
                      void* argument) {
  Waiting& frame = queue_.emplace_back();
  frame.head = head;
  frame.body_bytes = bytes;
  pending_ = true;
  queued_bytes_ += head.size() + kWaitingBytes;
  if (queued_bytes_ > kMaxQueued && !overflowed_.exchange(true)) shutdown(meeting_.socket.get(), SHUT_RDWR);
  if (bytes <= kMaxWhole && queued_bytes_ + bytes <= kMaxCopied) {
    for (const tenon_span& piece : body) frame.copy.append(piece.data, piece.size);
    queued_bytes_ += bytes;
    frame.pieces = {{nullptr, bytes}};  // stands for the copy, which may move
    return;
  }
  frame.pieces.assign(body.begin(), body.end());
  frame.written = std::exchange(*written, nullptr);
  frame.argument = argument;
}

// True: all of it is in the ring.
bool ShmPipe::Advance(Waiting* frame, std::vector<Finished>* finished) {
  const bool copied = frame->written == nullptr;
  if (copied) frame->pieces[0].data = frame->copy.data();
  if (!frame->begun && Lends(frame->body_bytes, frame->pieces.size())) {
    return PutLent(frame->head, frame->pieces, frame->body_bytes, frame->written, frame->argument);
  }
  if (!frame->begun && frame->body_bytes <= kMaxWhole) {
    if (!PutWhole(frame->head, frame->pieces, frame->body_bytes)) return false;
  } else {
    if (!frame->begun && !PutRecord({RecordKind::kParts, 0, 0, 0, frame->body_bytes, 0}, frame->head, {})) return false;
    frame->begun = true;
    while (frame->piece < frame->pieces.size()) {
      const tenon_span& piece = frame->pieces[frame->piece];
      const tenon_span part = {piece.data + frame->offset, std::min(piece.size - frame->offset, kMaxChunk)};
      if (part.size != 0 && !PutRecord({RecordKind::kChunk, 0, 0, 0, 0, 0}, {}, {&part, 1})) return false;
      frame->offset += part.size;
      if (frame->offset < piece.size) continue;
      ++frame->piece;
      frame->offset = 0;
    }
  }
  if (copied) queued_bytes_ -= frame->body_bytes;
  if (!copied) finished->push_back({frame->written, frame->argument});
  return true;
}

// Moves what waits into the ring, as far as there is room.
void ShmPipe::Pump() {
  std::vector<Finished> finished;
  {
    const std::lock_guard guard(out_lock_);
    for (int turn = 0; turn < 2 && !closed_; ++turn) {
      bool room = true;
      while (room && !acknowledgements_.empty()) {
        room = PutRecord({RecordKind::kReturned, 0, 0, 0, 0, acknowledgements_.front()}, {}, {});
        if (room) acknowledgements_.pop_front();
      }
      while (room && !queue_.empty()) {
        room = Advance(&queue_.front(), &finished);
        if (!room) break;
        queued_bytes_ -= queue_.front().head.size() + kWaitingBytes;
        queue_.pop_front();
      }
      if (room) break;
      out_.WaitForRoom();  // then look again: it may have come meanwhile
    }
    stuck_at_ = out_.tail_seen();
    pending_ = !closed_ && (!acknowledgements_.empty() || !queue_.empty());
    Wake();
  }
  for (const Finished& frame : finished) frame.written(frame.argument, true);
}

void ShmPipe::Wake() {
  if (meeting_.bell->TakeSleeper()) Ring();
}

void ShmPipe::Ring() {
  [[maybe_unused]] const ssize_t sent = send(meeting_.socket.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// ---- Reading ----

bool ShmPipe::HasWork() {
  if (over_) return false;
  return in_.Available() != 0 || overflowed_ || gone_ || failed_ != TENON_OK ||
         (pending_ && out_.tail_now() != stuck_at_);
}

void ShmPipe::Visit() {
  if (pending_) Pump();
  bool found = true;
  for (int i = 0; i < kRecordsAVisit && found && !overflowed_; ++i) {
    found = Consume();
    if (later_.memory != nullptr && ReadElsewhere()) return;
  }
  if (failed_ != TENON_OK || overflowed_ || (gone_ && !found)) Finish();
}

void ShmPipe::Rung() {
  if (OtherSideIsGone()) gone_ = true;
}

void ShmPipe::Finish() {
  over_ = true;
  if (chunk_bytes_left_ != 0) sink_->End(false);
  chunk_bytes_left_ = 0;
  {
    const std::lock_guard guard(out_lock_);
    closed_ = true;
    out_.Close();
  }
  shutdown(meeting_.socket.get(), SHUT_RDWR);
  if (overflowed_) Fail(TENON_UNAVAILABLE, "the other side does not read what is sent to it");
  if (failed_ == TENON_OK) Fail(TENON_UNAVAILABLE, "the other side has closed it, or its process has ended");
  sink_->Broken(sdk::Failure(failed_, why_));
}

bool ShmPipe::Fail(uint32_t code, const std::string& why) {
  failed_ = code;
  why_ = why;
  return false;
}

// One record. False: there is none, or the pipe has failed.
bool ShmPipe::Consume() {
  const uint64_t available = in_.Available();
  if (available == 0) return false;
  Record record;
  if (available > in_.size() || available < sizeof record)
    return Fail(TENON_INVALID_ARGUMENT, "the ring's counters are impossible");
  std::memcpy(&record, in_.at(), sizeof record);
  const uint64_t size = RecordBytes(record.payload_bytes);
  if (size > available || record.head_bytes > record.payload_bytes || record.head_bytes > sdk::kMaxFrameHead) {
    return Fail(TENON_INVALID_ARGUMENT, "a record is longer than what is in the ring");
  }
  if (!Take(record, in_.at() + sizeof record)) return false;
  in_.Consume(size);
  if (in_.TakeWaiter()) Ring();
  if (record.kind == RecordKind::kWhole) sink_->End(true);
  return true;
}

bool ShmPipe::Take(const Record& record, const char* payload) {
  if (record.kind == RecordKind::kChunk) return TakeChunk(payload, record.payload_bytes);
  if (record.kind == RecordKind::kReturned) return TakeBack(record.id);
  if (chunk_bytes_left_ != 0)
    return Fail(TENON_INVALID_ARGUMENT, "a frame begins before the body of another has ended");
  if (record.kind == RecordKind::kLent) return TakeLent(record, payload);
  const uint64_t body = record.payload_bytes - record.head_bytes;
  const bool whole = record.kind == RecordKind::kWhole && body == record.body_bytes;
  const bool parts = record.kind == RecordKind::kParts && body == 0 && record.body_bytes != 0;
  if (!whole && !parts) return Fail(TENON_INVALID_ARGUMENT, "a record of unknown kind, or whose sizes do not agree");
  head_.assign(payload, payload + record.head_bytes);
  char* memory = static_cast<char*>(sink_->Begin({head_.data(), head_.size()}, record.body_bytes));
  if (whole) {
    if (memory != nullptr && body != 0) std::memcpy(memory, payload + record.head_bytes, body);
    return true;
  }
  chunks_to_ = memory;
  dropping_ = memory == nullptr;
  chunk_bytes_left_ = record.body_bytes;
  return true;
}

bool ShmPipe::TakeChunk(const char* bytes, uint64_t size) {
  if (size == 0 || size > chunk_bytes_left_) return Fail(TENON_INVALID_ARGUMENT, "a chunk that belongs to no body");
  if (!dropping_) {
    std::memcpy(chunks_to_, bytes, size);
    chunks_to_ += size;
  }
  chunk_bytes_left_ -= size;
  if (chunk_bytes_left_ == 0) sink_->End(true);
  return true;
}

bool ShmPipe::TakeLent(const Record& record, const char* payload) {
  const uint64_t list_bytes = record.payload_bytes - record.head_bytes;
  if (list_bytes % sizeof(Piece) != 0 || list_bytes > kMaxPieces * sizeof(Piece) || !meeting_.may_read) {
    return Fail(TENON_INVALID_ARGUMENT, "a list of pieces that is none");
  }
  head_.assign(payload, payload + record.head_bytes);
  std::vector<Piece> pieces(list_bytes / sizeof(Piece));
  if (list_bytes != 0) std::memcpy(static_cast<void*>(pieces.data()), payload + record.head_bytes, list_bytes);
  uint64_t left = record.body_bytes;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0 || piece.bytes > left)
      return Fail(TENON_INVALID_ARGUMENT, "pieces that are not their body's size");
    left -= piece.bytes;
  }
  if (left != 0) return Fail(TENON_INVALID_ARGUMENT, "pieces that are not their body's size");
  char* memory = static_cast<char*>(sink_->Begin({head_.data(), head_.size()}, record.body_bytes));
  if (memory != nullptr && record.body_bytes >= kReadElsewhere) {
    later_ = {std::move(pieces), memory, record.body_bytes, record.id};
    return true;
  }
  return EndLent(record.id, memory == nullptr || ReadLent(pieces, memory, record.body_bytes));
}

bool ShmPipe::EndLent(uint64_t id, bool read) {
  if (read) Acknowledge(id);
  sink_->End(read);
  return read;
}

// False: it has been read here.
bool ShmPipe::ReadElsewhere() {
  const auto read = [this, later = std::exchange(later_, {})] {
    EndLent(later.id, ReadLent(later.pieces, later.memory, later.bytes));
  };
  reader_->Leave(this);
  try {
    elsewhere_ = std::async(std::launch::async, [this, read] {
      read();
      reader_->Return(this);
    });
    return true;
  } catch (const std::system_error&) {  // no thread to be had
    reader_->Return(this);
    read();
    return false;
  }
}

bool ShmPipe::ReadLent(const std::vector<Piece>& pieces, char* memory, uint64_t bytes) {
  int error = 0;
  if (bytes < kReadByTwo) {
    error = ReadRange(pieces, memory, 0, bytes);
  } else {  // the sender waits meanwhile: its core is free
    const uint64_t half = bytes / 2 / kPage * kPage;
    std::future<int> second;
    try {
      second = std::async(std::launch::async, [&] { return ReadRange(pieces, memory, half, bytes); });
    } catch (const std::system_error&) {  // no thread to be had
    }
    error = ReadRange(pieces, memory, 0, half);
    const int rest = second.valid() ? second.get() : ReadRange(pieces, memory, half, bytes);
    if (error == 0) error = rest;
  }
  // What was read counts only if its owner still lent it.
  if (closing_ || in_.WriterClosed() || OtherSideIsGone()) {
    return Fail(TENON_UNAVAILABLE, "the other side ended while its data was read");
  }
  if (error == 0) return true;
  return Fail(TENON_INVALID_ARGUMENT,
              sdk::Concat("the memory of the other side cannot be read: ", std::strerror(error)));
}

// The bytes from `begin` to `end` of all pieces. 0, or what errno says.
int ShmPipe::ReadRange(const std::vector<Piece>& pieces, char* memory, uint64_t begin, uint64_t end) const {
  uint64_t first = 0;  // of the piece
  for (const Piece& piece : pieces) {
    const uint64_t last = std::min(first + piece.bytes, end);
    for (uint64_t at = std::max(first, begin); at < last && !closing_;) {
      const uint64_t size = std::min(last - at, kReadAtOnce);
      const iovec here = {memory + at, size};
      const iovec there = {reinterpret_cast<void*>(piece.address + (at - first)), size};
      const ssize_t got = process_vm_readv(meeting_.process, &here, 1, &there, 1, 0);
      if (got <= 0) return got == 0 ? EFAULT : errno;
      at += static_cast<uint64_t>(got);
    }
    first += piece.bytes;
  }
  return 0;
}

void ShmPipe::Acknowledge(uint64_t id) {
  {
    const std::lock_guard guard(out_lock_);
    if (closed_) return;
    acknowledgements_.push_back(id);
    pending_ = true;
  }
  Pump();
}

bool ShmPipe::TakeBack(uint64_t id) {
  Lent lent = {};
  {
    const std::lock_guard guard(out_lock_);
    if (closed_) return true;
    if (lent_.empty() || lent_.front().id != id)
      return Fail(TENON_INVALID_ARGUMENT, "a frame is returned that was not lent");
    lent = lent_.front();
    lent_.pop_front();
  }
  lent.written(lent.argument, true);
  return true;
}

// Reads the bytes that woke this side.
bool ShmPipe::OtherSideIsGone() {
  char bytes[64];
  for (;;) {
    const ssize_t got = recv(meeting_.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
}

void ShmPipe::Close() {
  closing_ = true;
  reader_->Remove(this, meeting_.socket.get());
  if (elsewhere_.valid()) elsewhere_.wait();
  std::deque<Waiting> queue;
  std::deque<Lent> lent;
  {
    const std::lock_guard guard(out_lock_);
    closed_ = true;
    out_.Close();
    queue.swap(queue_);
    lent.swap(lent_);
  }
  shutdown(meeting_.socket.get(), SHUT_RDWR);
  for (const Lent& frame : lent) frame.written(frame.argument, false);
  for (const Waiting& frame : queue) {
    if (frame.written != nullptr) frame.written(frame.argument, false);
  }
}

}  // namespace tenon::shm
