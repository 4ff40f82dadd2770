// SPDX-License-Identifier: Apache-2.0
#include "pipe.h"

#include <grpcpp/alarm.h>

#include "tenon/sdk/span.h"

namespace tenon::grpc_net {

struct GrpcPipe::Frame {
  GrpcPipe* pipe;
  std::string lead;  // until it is written; with the body when that is small
  std::vector<tenon_span> body;
  size_t piece = 0;  // of the body, and bytes of it, that are with gRPC
  uint64_t offset = 0;
  void (*written)(void* argument, bool ok);
  void* argument;
  bool ok = false;
  std::atomic<uint32_t> holds{1};  // the pipe's own and one for each slice
};

// gRPC let go of a slice after its message was written, and from who knows where: the pipe hears of it on a thread of
// the queue.
struct GrpcPipe::LateFrame final : Operation {
  explicit LateFrame(Frame* late) : frame(late) {
    alarm.Set(late->pipe->queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), this);
  }
  void Done(bool) override {
    Frame* ended = frame;
    delete this;
    ended->pipe->FrameEnded(ended);
  }
  Frame* frame;
  grpc::Alarm alarm;
};

GrpcPipe::~GrpcPipe() = default;

void GrpcPipe::Start(sdk::FrameSink* sink) {
  const std::lock_guard lock(mutex_);
  sink_ = sink;
  reading_ = true;
  stream_->Read(&incoming_, &read_);
}

// ---- Writing ----

void GrpcPipe::Write(std::string_view head, std::span<const tenon_span> body, void (*written)(void* argument, bool ok),
                     void* argument) {
  uint64_t bytes = 0;
  for (const tenon_span& piece : body) bytes += piece.size;
  auto* frame =
      new Frame{.pipe = this, .lead = FrameLead(head, bytes), .body = {}, .written = written, .argument = argument};
  if (!lends_ || bytes < kCopiedBytes) {
    for (const tenon_span& piece : body) frame->lead += sdk::ToText(piece);
  } else {
    frame->body.assign(body.begin(), body.end());
  }
  {
    const std::lock_guard lock(mutex_);
    ++frames_;
    if (!closing_ && !read_ended_) {
      waiting_.push_back(frame);
      if (!writing_) WriteNext();
      return;
    }
  }
  Fail({frame});
}

void GrpcPipe::WriteNext() {
  std::vector<grpc::Slice> slices;
  TakeInto(slices);
  const grpc::ByteBuffer message(slices.data(), slices.size());
  writing_ = true;
  stream_->Write(message, &write_);
}

// The next message: up to kMessageBytes of waiting frames. What is copied goes into as few slices as can be.
void GrpcPipe::TakeInto(std::vector<grpc::Slice>& slices) {
  size_t bytes = 0;
  std::string copied;
  const auto flush = [&] {
    if (!copied.empty()) slices.emplace_back(copied);
    copied.clear();
  };
  while (!waiting_.empty() && bytes < kMessageBytes) {
    Frame* frame = waiting_.front();
    if (frame->piece == 0 && frame->body.empty()) {
      const size_t count = std::min<size_t>(frame->lead.size() - frame->offset, kMessageBytes - bytes);
      copied.append(frame->lead, frame->offset, count);
      frame->offset += count;
      bytes += count;
      if (frame->offset != frame->lead.size()) break;
    } else {
      copied += frame->lead;
      bytes += frame->lead.size();
      frame->lead.clear();
      flush();
      while (frame->piece != frame->body.size() && bytes < kMessageBytes) {
        const tenon_span& piece = frame->body[frame->piece];
        const size_t count = std::min<size_t>(piece.size - frame->offset, kMessageBytes - bytes);
        if (count != 0) {
          frame->holds.fetch_add(1, std::memory_order_relaxed);
          slices.emplace_back(const_cast<char*>(piece.data) + frame->offset, count, &SliceGone, frame);
        }
        bytes += count;
        frame->offset += count;
        if (frame->offset == piece.size) ++frame->piece, frame->offset = 0;
      }
      if (frame->piece != frame->body.size()) break;
    }
    sent_.push_back(frame);
    waiting_.pop_front();
  }
  flush();
}

void GrpcPipe::Wrote(bool ok) {
  Frames sent, failed;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    sent.swap(sent_);
    for (Frame* frame : sent) frame->ok = ok;
    if (ok && !closing_ && !read_ended_ && !waiting_.empty()) WriteNext();
    failed = Advance();
    changed_.notify_all();
    frames_ += 1;  // keeps the pipe until this returns
  }
  for (Frame* frame : sent) LetGo(frame);
  Fail(failed);
  const std::lock_guard lock(mutex_);
  --frames_;
  changed_.notify_all();
}

void GrpcPipe::Fail(const Frames& frames) {
  for (Frame* frame : frames) LetGo(frame);
}

void GrpcPipe::LetGo(Frame* frame) {
  if (frame->holds.fetch_sub(1, std::memory_order_acq_rel) == 1) frame->pipe->FrameEnded(frame);
}

void GrpcPipe::SliceGone(void* argument) {
  auto* frame = static_cast<Frame*>(argument);
  if (frame->holds.fetch_sub(1, std::memory_order_acq_rel) == 1) new LateFrame(frame);
}

void GrpcPipe::FrameEnded(Frame* frame) {
  frame->written(frame->argument, frame->ok);
  delete frame;
  const std::lock_guard lock(mutex_);
  --frames_;
  changed_.notify_all();
}

// ---- Reading ----

void GrpcPipe::Read(bool ok) {
  bool good = true;
  bool dropped = false;
  {
    const std::lock_guard lock(mutex_);
    dropped = closing_;
  }
  if (ok) {
    good = incoming_.Dump(&pieces_).ok();
    incoming_.Clear();
    for (const grpc::Slice& piece : pieces_) {
      if (!good || dropped) break;
      good = parser_.Feed({reinterpret_cast<const char*>(piece.begin()), piece.size()}, sink_);
    }
    pieces_.clear();
  }
  Frames failed;
  {
    const std::lock_guard lock(mutex_);
    if (ok && good) {
      stream_->Read(&incoming_, &read_);
      return;
    }
    if (!good) {
      misread_ = true;
      stream_->Cancel();
    }
    read_ended_ = true;
    failed = Advance();
    ++frames_;
    reading_ = false;
  }
  Fail(failed);
  const std::lock_guard lock(mutex_);
  --frames_;
  changed_.notify_all();
}

// ---- The end ----

// Takes the next step towards the stream's end, when it is to end; the frames that are then never written are the
// caller's to fail.
GrpcPipe::Frames GrpcPipe::Advance() {
  if ((!closing_ && !read_ended_) || finishing_) return {};
  Frames failed(waiting_.begin(), waiting_.end());
  waiting_.clear();
  if (writing_) {
    if (read_ended_) stream_->Cancel();  // nobody takes what is under way
    return failed;
  }
  if (!read_ended_ && !half_closed_) {
    half_closed_ = true;
    if (stream_->HalfClose(&write_)) {
      writing_ = true;
      return failed;
    }
  } else if (!read_ended_) {
    return failed;  // the other side ends it
  }
  finishing_ = true;
  stream_->Finish(&finish_);
  return failed;
}

void GrpcPipe::Finished(bool) {
  bool tell = false;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    telling_ = tell = !closing_ && sink_ != nullptr;
    changed_.notify_all();
    if (!tell) return;
  }
  parser_.Stop(sink_);
  sink_->Broken(WhyBroken());
  const std::lock_guard lock(mutex_);
  telling_ = false;
  changed_.notify_all();
}

tenon_status* GrpcPipe::WhyBroken() const {
  if (misread_) return sdk::Failure(TENON_INVALID_ARGUMENT, "what came from ", name_, " is no frame of Tenon's");
  const grpc::Status& status = stream_->status();
  // Whose connection it was, says who had it.
  return sdk::Failure(TENON_UNAVAILABLE, status.ok() ? "the other side closed it" : status.error_message().c_str());
}

void GrpcPipe::Close() {
  Frames failed;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (sink_ == nullptr) {  // nothing was read, so that nothing tells the end
      stream_->Cancel();
      read_ended_ = true;
    }
    failed = Advance();
  }
  Fail(failed);
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return Idle(); };
  if (!Await(queue_, lock, changed_, std::chrono::steady_clock::now() + kGrace, idle)) {
    stream_->Cancel();
    Await(queue_, lock, changed_, Time::max(), idle);
  }
  lock.unlock();
  if (sink_ != nullptr) parser_.Stop(sink_);
  stream_.reset();  // with the connection, which may hold slices still
  lock.lock();
  Await(queue_, lock, changed_, Time::max(), [this] { return frames_ == 0; });
}

}  // namespace tenon::grpc_net
