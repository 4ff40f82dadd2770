// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/scheduler.h"

namespace tenon::simulation {
namespace {

constexpr uint64_t kRefusalNs = 200'000;

Scheduler& Here() { return *Scheduler::Here(); }

}  // namespace

class End final : public WireEnd {
 public:
  End(Network* network, std::shared_ptr<Network::Wire> wire, std::shared_ptr<Network::Lane> in,
      std::shared_ptr<Network::Lane> out)
      : network_(network), wire_(std::move(wire)), in_(std::move(in)), out_(std::move(out)) {}

  bool Write(std::string_view head, std::string body) override {
    if (closed_ || out_->closed) return false;
    if (wire_->silent) {
      // The machine came back, or never will: what is written vanishes, or is answered by a reset.
      if (!network_->dead_silently_.contains(out_->to) && !network_->dead_silently_.contains(out_->from))
        network_->Push(in_.get(), Frame{{}, {}, 0, true});
      return true;
    }
    network_->Push(out_.get(), {std::string(head), std::move(body), 0, false});
    return true;
  }
  bool Read(Frame* out, bool* out_broken) override {
    *out_broken = false;
    for (;;) {
      if (closed_) return false;
      if (!in_->frames.empty() && in_->frames.front().arrives <= Here().now()) {
        *out = std::move(in_->frames.front());
        in_->frames.pop_front();
        if (!out->last) return true;
        *out_broken = in_->closed = true;
        return false;
      }
      Here().Wait(in_.get(), in_->frames.empty() ? kNever : in_->frames.front().arrives);
    }
  }
  void Close() override {
    if (std::exchange(closed_, true)) return;
    if (!wire_->silent) network_->Push(out_.get(), Frame{{}, {}, 0, true});
    in_->closed = true;
    Here().Wake(in_.get());
  }

 private:
  Network* const network_;
  const std::shared_ptr<Network::Wire> wire_;
  const std::shared_ptr<Network::Lane> in_, out_;
  bool closed_ = false;
};

uint64_t Network::Arrival(const Lane& lane, uint64_t bytes) {
  if (IsCut(lane.from, lane.to)) return kNever;
  uint64_t way = weather_.least_ns + Here().Draw(weather_.most_ns - weather_.least_ns) + bytes;  // 1 GB/s
  if (Here().Chance(weather_.spike)) way += Here().Draw(weather_.spike_ns);
  return Here().now() + way;
}

void Network::Push(Lane* lane, Frame frame) {
  ++frames_;
  frame.arrives = Arrival(*lane, frame.head.size() + frame.body.size());
  if (!lane->frames.empty()) frame.arrives = std::max(frame.arrives, lane->frames.back().arrives);
  lane->frames.push_back(std::move(frame));
  Here().Wake(lane);
}

void Network::Heal(int from, int to) {
  cut_.erase({from, to});
  for (const auto& wire : wires_) {
    for (Lane* lane : {wire->there.get(), wire->back.get()}) {
      if (lane->from != from || lane->to != to) continue;
      uint64_t last = 0;
      for (Frame& frame : lane->frames) {
        if (frame.arrives == kNever) frame.arrives = Arrival(*lane, frame.body.size());
        frame.arrives = last = std::max(last, frame.arrives);
      }
      Here().Wake(lane);
    }
  }
}

void Network::Kill(int node, bool silently) {
  if (silently) dead_silently_.insert(node);
  std::erase_if(listeners_, [node](const auto& each) { return each.second->node == node; });
  for (const auto& wire : wires_) {
    for (Lane* lane : {wire->there.get(), wire->back.get()}) {
      if (lane->from != node) continue;
      if (silently) {
        wire->silent = true;
      } else {
        Push(lane, Frame{{}, {}, 0, true});
      }
    }
  }
}

bool Network::DiskFails() {
  Here().Sleep(1'000 + Here().Draw(100'000));
  return disk_failures_ > 0 && Here().Chance(disk_failures_);
}

void Network::Reset(int one, int other) {
  for (const auto& wire : wires_) {
    for (Lane* lane : {wire->there.get(), wire->back.get()}) {
      if (lane->closed || std::minmax(lane->from, lane->to) != std::minmax(one, other)) continue;
      lane->frames.clear();
      Push(lane, Frame{{}, {}, 0, true});
    }
  }
}

bool Network::Listen(const std::string& address) {
  const auto [at, made] = listeners_.try_emplace(address);
  if (!made) return false;
  at->second = std::make_shared<Listener>();
  at->second->node = Scheduler::Self()->node;
  return true;
}

void Network::StopListening(const std::string& address) {
  const auto at = listeners_.find(address);
  if (at == listeners_.end()) return;
  at->second->stopped = true;
  Here().Wake(at->second.get());
  listeners_.erase(at);
}

std::shared_ptr<WireEnd> Network::Accept(const std::string& address) {
  const auto at = listeners_.find(address);
  if (at == listeners_.end()) return nullptr;
  const std::shared_ptr<Listener> listener = at->second;
  while (!listener->stopped && listener->waiting.empty()) Here().Wait(listener.get());
  if (listener->stopped) return nullptr;
  std::shared_ptr<WireEnd> end = std::move(listener->waiting.front());
  listener->waiting.pop_front();
  return end;
}

ConnectOutcome Network::Connect(const std::string& address, uint64_t deadline_ns, std::shared_ptr<WireEnd>* out) {
  const int from = Scheduler::Self()->node;
  const uint64_t deadline = deadline_ns == 0 ? kNever : deadline_ns;
  constexpr uint64_t kAskAgainNs = 50 * kMillisecond;
  for (;;) {
    const auto at = listeners_.find(address);
    const int to = at == listeners_.end() ? -1 : at->second->node;
    const bool lost = to >= 0 && (IsCut(from, to) || IsCut(to, from));
    if (to >= 0 && !lost && !Here().IsFrozen(to)) {
      Here().Sleep(weather_.least_ns + Here().Draw(weather_.most_ns));
      const auto again = listeners_.find(address);
      if (again == listeners_.end() || again->second->node != to) continue;
      auto wire = std::make_shared<Wire>();
      wire->there = std::make_shared<Lane>(Lane{from, to, {}, false});
      wire->back = std::make_shared<Lane>(Lane{to, from, {}, false});
      wires_.push_back(wire);
      *out = std::make_shared<End>(this, wire, wire->back, wire->there);
      again->second->waiting.push_back(std::make_shared<End>(this, wire, wire->there, wire->back));
      Here().Wake(again->second.get());
      return ConnectOutcome::kMade;
    }
    if (to < 0) {
      Here().Sleep(kRefusalNs);
      return ConnectOutcome::kRefused;
    }
    if (Here().now() >= deadline) return ConnectOutcome::kTooLate;
    Here().SleepUntil(std::min(deadline, Here().now() + kAskAgainNs));
  }
}

}  // namespace tenon::simulation
