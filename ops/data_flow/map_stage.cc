// SPDX-License-Identifier: Apache-2.0
// Staging areas by keys.
#include <algorithm>

#include "stage.h"

namespace tenon::ops {
using namespace sdk;

void MapStage::CheckPlaces(const std::vector<int64_t>& places, size_t width) const {
  for (const int64_t place : places)
    if (place < 0 || place >= static_cast<int64_t>(width))
      Fail(TENON_INVALID_ARGUMENT, "index ", place, " is none of the ", width, " values of an element of the ",
           Describe());
}

class MapStage::Putting final : public Attempt {
 public:
  Putting(MapStage& stage, RunContext c, Done done, int64_t key, std::vector<int64_t> places, Element values,
          size_t width)
      : Attempt(kPut, c, done),
        stage_(stage),
        key_(key),
        width_(width),
        places_(std::move(places)),
        values_(std::move(values)),
        bytes_(BytesOf(values_)) {
    stage_.CheckFits(bytes_);
    stage_.CheckPlaces(places_, width_);
  }
  Progress Try() override {
    if (stage_.width_ != 0 && stage_.width_ != width_)
      Fail(TENON_INVALID_ARGUMENT, "elements of the ", stage_.Describe(), " have ", stage_.width_,
           " values; dtypes says ", width_);
    const bool whole = places_.size() == width_;
    const auto found = stage_.incomplete_.find(key_);
    if (!whole && found != stage_.incomplete_.end()) CheckAbsent(found->second);
    if (!stage_.HasMemory(bytes_) || (whole && !stage_.HasRoom(stage_.whole_.size()))) return Progress::kNone;
    stage_.width_ = width_;
    if (whole) {
      if (const auto [at, fresh] = stage_.whole_.try_emplace(key_, width_, OfStep()); fresh) Fill(&at->second);
      return Progress::kEnd;
    }
    Pieces& pieces = stage_.incomplete_.try_emplace(key_, width_, OfStep()).first->second;
    Fill(&pieces);
    if (std::all_of(pieces.begin(), pieces.end(), [](const auto& piece) { return piece.has_value(); })) Complete();
    return Progress::kEnd;
  }
  std::string Waiting() const override { return Concat("waiting for room in the ", stage_.Describe()); }

 private:
  Pieces::allocator_type OfStep() const { return Pieces::allocator_type(Account(context_)); }
  void CheckAbsent(const Pieces& pieces) const {
    for (const int64_t place : places_)
      if (pieces[static_cast<size_t>(place)].has_value())
        Fail(TENON_INVALID_ARGUMENT, "value ", place, " of key ", key_, " is in the ", stage_.Describe(), " already");
  }
  void Fill(Pieces* pieces) {
    for (size_t i = 0; i < places_.size(); ++i)
      (*pieces)[static_cast<size_t>(places_[i])].emplace(std::move(values_[i]));
    stage_.bytes_ += bytes_;
  }
  void Complete() {
    const auto inserted = stage_.whole_.insert(stage_.incomplete_.extract(key_));
    if (inserted.inserted) return;
    for (const auto& piece : inserted.node.mapped()) stage_.bytes_ -= BytesOf(piece->view());  // which is dropped
  }
  MapStage& stage_;
  const int64_t key_;
  const size_t width_;
  const std::vector<int64_t> places_;
  Element values_;
  const int64_t bytes_;
};

namespace {
enum class Wanted { kTake, kPeek, kTakeAny };
}

class MapStage::Taking final : public Attempt {
 public:
  Taking(MapStage& stage, RunContext c, Done done, Wanted wanted, int64_t key, std::vector<int64_t> places,
         std::vector<uint32_t> types)
      : Attempt(kTake, c, done),
        stage_(stage),
        wanted_(wanted),
        key_(key),
        places_(std::move(places)),
        types_(std::move(types)) {}
  Progress Try() override {
    const auto found = wanted_ == Wanted::kTakeAny ? stage_.whole_.begin() : stage_.whole_.find(key_);
    if (found == stage_.whole_.end()) return Progress::kNone;
    key_ = found->first;
    CheckPieces(found->second);
    for (const int64_t place : places_) values_.push_back(found->second[static_cast<size_t>(place)]->Share());
    if (wanted_ != Wanted::kPeek) Remove(found);
    return Progress::kEnd;
  }
  void PutBack() noexcept override;
  void GiveOutputs() override {
    const int32_t first = wanted_ == Wanted::kTakeAny ? 1 : 0;
    if (first == 1) {
      context_.AllocOutput(0, {});
      *context_.output<int64_t>(0) = key_;
    }
    for (size_t i = 0; i < values_.size(); ++i) values_[i].Give(context_, first + static_cast<int32_t>(i));
  }
  std::string Waiting() const override {
    if (wanted_ == Wanted::kTakeAny) return Concat("waiting for any key in the ", stage_.Describe());
    return Concat("waiting for key ", key_, " in the ", stage_.Describe());
  }

 private:
  void CheckPieces(const Pieces& pieces) const;
  void Remove(std::map<int64_t, Pieces>::iterator at) {
    for (const int64_t place : places_) at->second[static_cast<size_t>(place)].reset();
    for (const Component& value : values_) stage_.bytes_ -= BytesOf(value.view());
    if (std::none_of(at->second.begin(), at->second.end(), [](const auto& piece) { return piece.has_value(); }))
      emptied_ = stage_.whole_.extract(at);
    removed_ = true;
  }
  MapStage& stage_;
  const Wanted wanted_;
  int64_t key_;
  const std::vector<int64_t> places_;
  const std::vector<uint32_t> types_;
  Element values_;
  std::map<int64_t, Pieces>::node_type emptied_;  // by what was taken, so that it can go back without memory
  bool removed_ = false;
};

void MapStage::Taking::CheckPieces(const Pieces& pieces) const {
  stage_.CheckPlaces(places_, pieces.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    const std::optional<Component>& piece = pieces[static_cast<size_t>(places_[i])];
    if (!piece.has_value())
      Fail(TENON_INVALID_ARGUMENT, "value ", places_[i], " of key ", key_, " was taken from the ", stage_.Describe(),
           " before");
    if (const uint32_t held = piece->view().dtype; held != types_[i])
      Fail(TENON_INVALID_ARGUMENT, "value ", places_[i], " of key ", key_, " in the ", stage_.Describe(), " is ",
           TypeName(held), ", not ", TypeName(types_[i]));
  }
}

// Not into a place that has another value by now.
void MapStage::Taking::PutBack() noexcept {
  if (!std::exchange(removed_, false)) return;
  try {
    if (!emptied_.empty()) stage_.whole_.insert(std::move(emptied_));
    auto at = stage_.whole_.find(key_);
    if (at == stage_.whole_.end())
      at = stage_.whole_.try_emplace(key_, stage_.width_, Pieces::allocator_type(Account(context_))).first;
    Pieces& pieces = at->second;
    for (size_t i = 0; i < places_.size(); ++i) {
      std::optional<Component>& piece = pieces[static_cast<size_t>(places_[i])];
      if (piece.has_value()) continue;
      stage_.bytes_ += BytesOf(values_[i].view());
      piece.emplace(std::move(values_[i]));
    }
  } catch (...) {  // without memory it goes with the attempt
  }
}

void MapStage::Put(RunContext c, Done done, int64_t key, std::vector<int64_t> places, Element values, size_t width) {
  Submit(std::make_unique<Putting>(*this, c, done, key, std::move(places), std::move(values), width));
}
void MapStage::Take(RunContext c, Done done, int64_t key, std::vector<int64_t> places, std::vector<uint32_t> types) {
  Submit(std::make_unique<Taking>(*this, c, done, Wanted::kTake, key, std::move(places), std::move(types)));
}
void MapStage::Peek(RunContext c, Done done, int64_t key, std::vector<int64_t> places, std::vector<uint32_t> types) {
  Submit(std::make_unique<Taking>(*this, c, done, Wanted::kPeek, key, std::move(places), std::move(types)));
}
void MapStage::TakeAny(RunContext c, Done done, std::vector<int64_t> places, std::vector<uint32_t> types) {
  Submit(std::make_unique<Taking>(*this, c, done, Wanted::kTakeAny, 0, std::move(places), std::move(types)));
}

int64_t MapStage::Size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(whole_.size());
}
int64_t MapStage::IncompleteSize() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(incomplete_.size());
}

void MapStage::Clear() {
  std::map<int64_t, Pieces> gone, gone_too;
  Ended ended;
  const std::lock_guard lock(mutex_);
  gone.swap(whole_);
  gone_too.swap(incomplete_);
  bytes_ = 0;
  Advance(&ended);
}

}  // namespace tenon::ops
