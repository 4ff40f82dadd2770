// SPDX-License-Identifier: Apache-2.0
// A pipe between two processes over shared memory.
//
// Idea: each direction is a ring of records (record.h). A small body stands in its record. A large one is read by the receiver straight
// from the sender's memory where the system permits it (one copy; an acknowledgement gives the sender its pieces back), or goes through
// the ring in chunks. One thread a pipe reads; it spins a little after its last work, unless others wait for the core, and then sleeps in
// poll() on the socket of the handshake, over which the other side sends a byte to wake it, and whose end says that it is gone.
//
// Rules. Writers take out_lock_; what does not fit into the ring waits in queue_ and is written by the reading thread, for whom the
// other side makes room. written() is never called under the lock.
#ifndef TENON_NET_SHM_PIPE_H_
#define TENON_NET_SHM_PIPE_H_

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "handshake.h"
#include "record.h"
#include "tenon/sdk/pipe.h"

namespace tenon::shm {

class ShmPipe final : public sdk::Pipe {
 public:
  using Written = void (*)(void* argument, bool ok);
  explicit ShmPipe(Meeting meeting);
  ~ShmPipe() override { Close(); }

  void Start(sdk::FrameSink* sink) override;
  void Write(std::string_view head, std::span<const tenon_span> body, Written written, void* argument) override;
  void Close() override;
  std::string_view name() const override { return meeting_.name; }

 private:
  // A frame that is not in the ring yet, or not all of it.
  struct Waiting {
    std::string head;
    std::string copy;                // of a small body
    std::vector<tenon_span> pieces;  // else
    uint64_t body_bytes = 0;
    bool begun = false;
    uint64_t piece = 0, offset = 0;  // of the next chunk
    Written written = nullptr;       // NULL: it was called
    void* argument = nullptr;
  };
  // A frame whose pieces the other side reads.
  struct Lent {
    uint64_t id;
    Written written;
    void* argument;
  };
  struct Finished {
    Written written;
    void* argument;
  };

  // ---- Writing, under out_lock_ ----
  bool PutWhole(std::string_view head, std::span<const tenon_span> body, uint64_t bytes);
  bool PutLent(std::string_view head, std::span<const tenon_span> body, uint64_t bytes, Written written, void* argument);
  bool PutRecord(Record record, std::string_view head, std::span<const tenon_span> body);
  bool Lends(uint64_t bytes, uint64_t pieces) const;
  void Enqueue(std::string_view head, std::span<const tenon_span> body, uint64_t bytes, Written* written, void* argument);
  bool Advance(Waiting* frame, std::vector<Finished>* finished);
  void Pump();
  void Wake();

  // ---- Reading: the pipe's thread ----
  void Run();
  bool Consume();
  bool Take(const Record& record, const char* payload);
  bool TakeChunk(const char* bytes, uint64_t size);
  bool TakeLent(const Record& record, const char* payload);
  bool ReadLent(const std::vector<Piece>& pieces, char* memory, uint64_t bytes);
  int ReadRange(const std::vector<Piece>& pieces, char* memory, uint64_t begin, uint64_t end) const;
  void Acknowledge(uint64_t id);
  bool TakeBack(uint64_t id);
  bool Spin();
  void Sleep();
  bool Fail(uint32_t code, const std::string& why);
  bool OtherSideIsGone();

  Meeting meeting_;
  const File wake_here_;  // an eventfd, for Close()
  sdk::FrameSink* sink_ = nullptr;

  std::mutex out_lock_;
  RingWriter out_;
  std::deque<Waiting> queue_;
  std::deque<Lent> lent_;
  std::deque<uint64_t> acknowledgements_;
  uint64_t queued_bytes_ = 0;
  uint64_t last_lent_ = 0;
  bool closed_ = false;
  std::atomic<bool> pending_{false};  // something waits for room
  std::atomic<bool> overflowed_{false};  // too much does

  // The reading thread's own.
  RingReader in_;
  std::vector<char> head_;
  char* chunks_to_ = nullptr;  // a body that comes in chunks
  bool dropping_ = false;
  uint64_t chunk_bytes_left_ = 0;
  bool gone_ = false;
  uint32_t failed_ = TENON_OK;
  std::string why_;
  uint64_t no_spin_until_ = 0;

  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_PIPE_H_
