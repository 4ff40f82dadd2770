// SPDX-License-Identifier: Apache-2.0
#include "pipe.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tenon/sdk/span.h"

namespace tenon::loopback {
namespace {

constexpr uint64_t kCopiedBody = 4096;

struct Frame {
  std::string head;
  std::string body;                // of a small one
  std::vector<tenon_span> pieces;  // of a large one: the writer's
  uint64_t bytes = 0;
  void (*written)(void* argument, bool ok) = nullptr;  // not called yet
  void* argument = nullptr;
};
using FramePointer = std::unique_ptr<Frame>;

// One direction.
struct Lane {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<FramePointer> frames;
  std::vector<FramePointer> spare;
  bool writer_closed = false;
  bool reader_closed = false;
  bool copying = false;  // the reader is at the writer's pieces

  FramePointer NewFrame() {
    const std::lock_guard guard(lock);
    if (spare.empty()) return std::make_unique<Frame>();
    FramePointer frame = std::move(spare.back());
    spare.pop_back();
    return frame;
  }
  // False: nobody will read it; it is the caller's still.
  bool Push(FramePointer* frame) {
    {
      const std::lock_guard guard(lock);
      if (writer_closed || reader_closed) return false;
      frames.push_back(std::move(*frame));
    }
    changed.notify_all();
    return true;
  }
  // The next frame; nullptr: the reader has closed, or the writer has and there is none.
  FramePointer Pop() {
    std::unique_lock guard(lock);
    changed.wait(guard, [this] { return reader_closed || !frames.empty() || writer_closed; });
    if (reader_closed || frames.empty()) return nullptr;
    FramePointer frame = std::move(frames.front());
    frames.pop_front();
    copying = frame->written != nullptr;
    return frame;
  }
  void Copied() {
    {
      const std::lock_guard guard(lock);
      copying = false;
    }
    changed.notify_all();
  }
  void Recycle(FramePointer frame) {
    frame->body.clear();
    const std::lock_guard guard(lock);
    if (spare.size() < 64) spare.push_back(std::move(frame));
  }
  // From the writer: frames whose pieces it needs back are lost.
  void CloseWriter() {
    std::deque<FramePointer> lost;
    {
      std::unique_lock guard(lock);
      writer_closed = true;
      changed.notify_all();
      changed.wait(guard, [this] { return !copying; });
      TakeUnwritten(&lost);
    }
    for (const FramePointer& frame : lost) frame->written(frame->argument, false);
  }
  void CloseReader() {
    std::deque<FramePointer> lost;
    {
      const std::lock_guard guard(lock);
      reader_closed = true;
      TakeUnwritten(&lost);
      frames.clear();
    }
    changed.notify_all();
    for (const FramePointer& frame : lost) frame->written(frame->argument, false);
  }
  bool ReaderClosed() {
    const std::lock_guard guard(lock);
    return reader_closed;
  }
  void TakeUnwritten(std::deque<FramePointer>* out_lost) {
    std::deque<FramePointer> rest;
    for (FramePointer& frame : frames) (frame->written == nullptr ? rest : *out_lost).push_back(std::move(frame));
    frames.swap(rest);
  }
};

class LoopbackPipe final : public sdk::Pipe {
 public:
  LoopbackPipe(std::shared_ptr<Lane> in, std::shared_ptr<Lane> out, std::string_view name)
      : in_(std::move(in)), out_(std::move(out)), name_(name) {}
  ~LoopbackPipe() override { Close(); }

  void Start(sdk::FrameSink* sink) override {
    thread_ = std::thread([this, sink] { Read(sink); });
  }
  void Write(std::string_view head, std::span<const tenon_span> body, void (*written)(void* argument, bool ok),
             void* argument) override {
    FramePointer frame = out_->NewFrame();
    frame->head = head;
    frame->pieces.clear();
    frame->bytes = 0;
    frame->written = nullptr;
    for (const tenon_span& piece : body) frame->bytes += piece.size;
    const bool copied = frame->bytes <= kCopiedBody;
    if (copied) {
      for (const tenon_span& piece : body) frame->body.append(piece.data, piece.size);
    } else {
      frame->pieces.assign(body.begin(), body.end());
      frame->written = written;
      frame->argument = argument;
    }
    const bool pushed = out_->Push(&frame);
    if (copied || !pushed) written(argument, pushed);
  }
  void Close() override {
    out_->CloseWriter();
    in_->CloseReader();
    if (thread_.joinable()) thread_.join();
  }
  std::string_view name() const override { return name_; }

 private:
  void Read(sdk::FrameSink* sink) {
    while (FramePointer frame = in_->Pop()) {
      Give(*frame, sink);
      in_->Recycle(std::move(frame));
    }
    if (!in_->ReaderClosed()) sink->Broken(tenon_plugin_error(TENON_UNAVAILABLE, "the other side has closed it"));
  }
  void Give(const Frame& frame, sdk::FrameSink* sink) {
    auto* memory = static_cast<char*>(sink->Begin(frame.head, frame.bytes));
    if (memory != nullptr && frame.written == nullptr) std::memcpy(memory, frame.body.data(), frame.body.size());
    for (const tenon_span& piece : frame.pieces) {
      if (memory == nullptr || piece.size == 0) continue;
      std::memcpy(memory, piece.data, piece.size);
      memory += piece.size;
    }
    if (frame.written != nullptr) {
      frame.written(frame.argument, true);
      in_->Copied();
    }
    sink->End(true);
  }

  const std::shared_ptr<Lane> in_, out_;
  const std::string name_;
  std::thread thread_;
};

}  // namespace

std::pair<std::unique_ptr<sdk::Pipe>, std::unique_ptr<sdk::Pipe>> MakePipe(std::string_view first_sees,
                                                                           std::string_view second_sees) {
  auto there = std::make_shared<Lane>(), back = std::make_shared<Lane>();
  return {std::make_unique<LoopbackPipe>(back, there, first_sees),
          std::make_unique<LoopbackPipe>(there, back, second_sees)};
}

}  // namespace tenon::loopback
