// SPDX-License-Identifier: Apache-2.0
// Values that are asked for: large ones that stay with their sender until the receiver is about to need them, so that
// they do not pile up there.
//
// Both sides know of each channel whether its value is one (Channel.asked_bytes of cluster.proto). The receiver's wish
// is a dead value that goes the other way, to the part that sends the channel; that it will never need one (its part is
// over), a value of no bytes (packet.h).
#ifndef TENON_NET_CLUSTER_ASKED_VALUES_H_
#define TENON_NET_CLUSTER_ASKED_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/exec/exchange/rendezvous.h"

namespace tenon::cluster {

// The receiver's side, of one step: which to ask for now. One thread at a time.
class AskingWindow {
 public:
  struct Value {
    int32_t channel;
    uint64_t bytes;
  };
  // In the order in which they are needed. window: bytes that are asked for and not taken yet; of two values at least,
  // so that one comes while the other is read.
  AskingWindow(std::vector<Value> values, uint64_t window) : values_(std::move(values)), window_(window) {
    for (size_t i = 0; i < values_.size(); ++i) index_.emplace(values_[i].channel, i);
    states_.resize(values_.size());
  }

  // Each gives the channels to ask for now.
  std::vector<int32_t> Begin() { return Fill(); }
  // Somebody waits for it.
  std::vector<int32_t> Needed(int32_t channel) {
    const auto at = index_.find(channel);
    if (at == index_.end() || states_[at->second] != State::kNotAsked) return {};
    Ask(at->second);
    return {channel};
  }
  // It has come, and its reader has it.
  std::vector<int32_t> Taken(int32_t channel) {
    const auto at = index_.find(channel);
    if (at == index_.end() || states_[at->second] == State::kTaken) return {};
    if (states_[at->second] == State::kAsked) {
      bytes_ -= values_[at->second].bytes;
      --open_;
    }
    states_[at->second] = State::kTaken;
    return Fill();
  }
  // The part is over: those that it never asked for.
  std::vector<int32_t> NeverAsked() {
    std::vector<int32_t> out;
    for (size_t i = 0; i < values_.size(); ++i)
      if (states_[i] == State::kNotAsked) out.push_back(values_[i].channel);
    return out;
  }

 private:
  enum class State : uint8_t { kNotAsked, kAsked, kTaken };
  void Ask(size_t i) {
    states_[i] = State::kAsked;
    bytes_ += values_[i].bytes;
    ++open_;
  }
  std::vector<int32_t> Fill() {
    std::vector<int32_t> out;
    for (; next_ < values_.size(); ++next_) {
      if (states_[next_] != State::kNotAsked) continue;
      if (open_ >= 2 && (bytes_ >= window_ || values_[next_].bytes > window_ - bytes_)) break;
      Ask(next_);
      out.push_back(values_[next_].channel);
    }
    return out;
  }

  const std::vector<Value> values_;
  const uint64_t window_;
  std::map<int32_t, size_t> index_;
  std::vector<State> states_;
  size_t next_ = 0, open_ = 0;
  uint64_t bytes_ = 0;
};

// The sender's side, of one step: values by their channels. One thread at a time.
class KeptValues {
 public:
  // A value is made: back when it is to go now.
  std::optional<exec::Message> Made(int32_t channel, exec::Message message) {
    if (unwanted_.contains(channel)) return std::nullopt;
    if (wanted_.contains(channel)) return message;
    kept_.emplace(channel, std::move(message));
    return std::nullopt;
  }
  // The receiver asks for it: what is to go now, if it is there.
  std::optional<exec::Message> Wanted(int32_t channel) {
    const auto at = kept_.find(channel);
    if (at == kept_.end()) {
      wanted_.insert(channel);
      return std::nullopt;
    }
    std::optional<exec::Message> message(std::move(at->second));
    kept_.erase(at);
    return message;
  }
  // The receiver will not ask for it.
  void Unwanted(int32_t channel) {
    unwanted_.insert(channel);
    kept_.erase(channel);
  }
  bool empty() const { return kept_.empty(); }
  void Clear() { kept_.clear(); }

 private:
  std::set<int32_t> wanted_, unwanted_;
  std::map<int32_t, exec::Message> kept_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_ASKED_VALUES_H_
