// SPDX-License-Identifier: Apache-2.0
// A pipe between two processes over shared memory.
//
// Idea: each direction is a ring of records (record.h). A small body stands in its record. A large one is read by the
// receiver straight from the sender's memory where the system permits it (one copy; an acknowledgement gives the sender
// its pieces back), or goes through the ring in chunks. The endpoint's reader (reader.h) reads all its pipes.
//
// Rules. Writers take out_lock_; what does not fit into the ring waits in queue_ and is written by the reading thread,
// for whom the other side makes room. written() is never called under the lock.
#ifndef TENON_NET_SHM_PIPE_H_
#define TENON_NET_SHM_PIPE_H_

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "handshake.h"
#include "reader.h"
#include "record.h"
#include "tenon/extras/transport/pipe.h"

namespace tenon::shm {

class ShmPipe final : public sdk::Pipe, private Reader::Source {
 public:
  using Written = void (*)(void* argument, bool ok);
  ShmPipe(Meeting meeting, std::shared_ptr<Reader> reader);
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
  bool PutLent(std::string_view head, std::span<const tenon_span> body, uint64_t bytes, Written written,
               void* argument);
  bool PutRecord(Record record, std::string_view head, std::span<const tenon_span> body);
  bool Lends(uint64_t bytes, uint64_t pieces) const;
  void Enqueue(std::string_view head, std::span<const tenon_span> body, uint64_t bytes, Written* written,
               void* argument);
  bool Advance(Waiting* frame, std::vector<Finished>* finished);
  void Pump();
  void Wake();
  void Ring();

  // ---- Reading: one thread at a time ----
  bool HasWork() override;
  void Visit() override;
  void Rung() override;
  // The pipe is broken.
  void Finish();
  bool Consume();
  bool Take(const Record& record, const char* payload);
  bool TakeChunk(const char* bytes, uint64_t size);
  bool TakeLent(const Record& record, const char* payload);
  bool EndLent(uint64_t id, bool read);
  bool ReadElsewhere();
  bool ReadLent(const std::vector<Piece>& pieces, char* memory, uint64_t bytes);
  int ReadRange(const std::vector<Piece>& pieces, char* memory, uint64_t begin, uint64_t end) const;
  void Acknowledge(uint64_t id);
  bool TakeBack(uint64_t id);
  bool Fail(uint32_t code, const std::string& why);
  bool OtherSideIsGone();

  // A large body that is still to be read.
  struct Later {
    std::vector<Piece> pieces;
    char* memory = nullptr;  // NULL: there is none
    uint64_t bytes = 0, id = 0;
  };

  Meeting meeting_;
  const std::shared_ptr<Reader> reader_;
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
  std::atomic<uint64_t> stuck_at_{0};  // what the other side had read when there was none
  std::atomic<bool> overflowed_{false};  // too much does

  // Of who reads; elsewhere_ is Close's too.
  RingReader in_;
  std::vector<char> head_;
  char* chunks_to_ = nullptr;  // a body that comes in chunks
  bool dropping_ = false;
  uint64_t chunk_bytes_left_ = 0;
  Later later_;
  std::future<void> elsewhere_;
  bool over_ = false;
  uint32_t failed_ = TENON_OK;
  std::string why_;

  std::atomic<bool> gone_{false};  // the other side is
  std::atomic<bool> closing_{false};
};

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_PIPE_H_
