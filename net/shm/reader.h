// SPDX-License-Identifier: Apache-2.0
// Reader: the one thread that reads all pipes of an endpoint.
//
// Idea: it goes round the pipes that have something, spins a little after its last work, unless others wait for the
// core, and then sleeps until a peer rings the endpoint's bell: a byte over the socket of any pipe's handshake, whose
// end says that a peer is gone. So the many small messages of a step wake one thread, not one each.
//
// Rules. A source is read by one thread at a time. Long work (large data) a source gives to a thread of its own, and is
// left alone until that has ended. Any thread may call; Remove not from within the source.
#ifndef TENON_NET_SHM_READER_H_
#define TENON_NET_SHM_READER_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "segment.h"

namespace tenon::shm {

class Reader {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    // Whether a visit would find anything to do.
    virtual bool HasWork() = 0;
    // Does some of it; more by a thread that was announced by Leave and says Return in the end.
    virtual void Visit() = 0;
    // The other side rang, or is gone.
    virtual void Rung() = 0;

   private:
    friend class Reader;
    int threads_ = 0;  // that read it
  };

  static tenon_status* Make(std::shared_ptr<Reader>* out_reader);
  ~Reader() { Stop(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Bell& bell() const { return *bell_; }
  // Throws std::system_error when no thread can be had.
  void Add(Source* source, int socket);
  // Waits until nobody reads it.
  void Remove(Source* source, int socket);
  void Leave(Source* source);
  void Return(Source* source);
  void Stop();

 private:
  Reader() = default;
  void Run();
  // With the lock, which is released meanwhile.
  bool VisitNext(std::unique_lock<std::mutex>* lock);
  bool Spin();
  void Sleep();
  bool HasWork();
  void Wake();

  std::unique_ptr<Bell> bell_;
  File events_, wake_;  // epoll, eventfd
  std::mutex mutex_;    // guards all below
  std::condition_variable changed_;
  std::vector<Source*> sources_;
  size_t next_ = 0;  // whose turn it is
  std::atomic<bool> stop_{false};
  std::thread thread_;
  uint64_t crowded_until_ = 0;  // the thread's own
};

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_READER_H_
