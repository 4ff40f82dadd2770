// SPDX-License-Identifier: Apache-2.0
// Network: simulated connections between nodes, which delay, are cut, and break, by the scheduler's seed.
//
// It promises what TCP does: each direction is in order and without loss, until it breaks. What is sent over a cut link
// stays under way until the link heals. A process that dies closes its connections; a machine that dies says nothing,
// and whoever writes to it later finds the connection broken once it is back. The plugin sim (transport_plugin.cc)
// makes a transport of it, with the code that every transport shares. Rules. Simulated threads alone; the node is the
// calling thread's. Nothing is locked, because one thread runs at a time.
#ifndef TENON_TESTS_SIMULATION_NETWORK_H_
#define TENON_TESTS_SIMULATION_NETWORK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::simulation {

struct Frame {
  std::string head, body;
  uint64_t arrives = 0;
  bool last = false;  // the other side has closed
};

// One end of a connection.
class WireEnd {
 public:
  virtual ~WireEnd() = default;
  // False: it is closed or broken.
  virtual bool Write(std::string_view head, std::string body) = 0;
  // Waits. False: it is closed here, or (*out_broken) by the other side.
  virtual bool Read(Frame* out, bool* out_broken) = 0;
  virtual void Close() = 0;
};

enum class ConnectOutcome { kMade, kRefused, kTooLate };

// What the plugin asks; virtual, so that it links against nothing.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // False: the address is taken.
  virtual bool Listen(const std::string& address) = 0;
  virtual void StopListening(const std::string& address) = 0;
  // Waits for who connects; nullptr: it stopped.
  virtual std::shared_ptr<WireEnd> Accept(const std::string& address) = 0;
  virtual ConnectOutcome Connect(const std::string& address, uint64_t deadline_ns, std::shared_ptr<WireEnd>* out) = 0;
  // Takes a disk's time. Whether the operation fails.
  virtual bool DiskFails() = 0;
  // What takes the disk's power away; called once, by the plugin.
  virtual void HaveDisk(void (*crash)()) = 0;
};

// The process's own; nullptr outside of a simulation. For the plugin, which finds it by name.
Fabric* TheFabric();

class Network final : public Fabric {
 public:
  struct Weather {
    uint64_t least_ns = 20'000, most_ns = 500'000;  // of a frame's way
    double spike = 0.01;                            // chance of up to spike_ns more
    uint64_t spike_ns = 300'000'000;
  };
  explicit Network(const Weather& weather) : weather_(weather) {}

  bool Listen(const std::string& address) override;
  void StopListening(const std::string& address) override;
  std::shared_ptr<WireEnd> Accept(const std::string& address) override;
  ConnectOutcome Connect(const std::string& address, uint64_t deadline_ns, std::shared_ptr<WireEnd>* out) override;
  bool DiskFails() override;
  void HaveDisk(void (*crash)()) override { crash_disk_ = crash; }

  // Nothing gets from one node to the other until it heals.
  void Cut(int from, int to) { cut_.insert({from, to}); }
  void Heal(int from, int to);
  bool IsCut(int from, int to) const { return cut_.contains({from, to}); }
  // After the scheduler's Kill. silently: the machine, not the process alone.
  void Kill(int node, bool silently);
  // Of the disk's operations; 0: all is well.
  void set_disk_failures(double chance) { disk_failures_ = chance; }
  // What is not durable is gone.
  void CrashDisk() const {
    if (crash_disk_ != nullptr) crash_disk_();
  }
  // Breaks the connections between two nodes; what was under way is lost. Both may connect again.
  void Reset(int one, int other);
  uint64_t frames() const { return frames_; }

 private:
  friend class End;
  struct Lane {  // one direction
    int from, to;
    std::deque<Frame> frames;
    bool closed = false;  // by who reads
  };
  struct Wire {
    std::shared_ptr<Lane> there, back;
    bool silent = false;  // the accepting or connecting machine is gone
  };
  struct Listener {
    int node;
    std::deque<std::shared_ptr<WireEnd>> waiting;
    bool stopped = false;
  };
  uint64_t Arrival(const Lane& lane, uint64_t bytes);
  void Push(Lane* lane, Frame frame);

  const Weather weather_;
  std::map<std::string, std::shared_ptr<Listener>> listeners_;
  std::vector<std::shared_ptr<Wire>> wires_;
  std::set<std::pair<int, int>> cut_;
  std::set<int> dead_silently_;
  double disk_failures_ = 0;
  void (*crash_disk_)() = nullptr;
  uint64_t frames_ = 0;
};

}  // namespace tenon::simulation

#endif  // TENON_TESTS_SIMULATION_NETWORK_H_
