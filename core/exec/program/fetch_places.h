// SPDX-License-Identifier: Apache-2.0
// FetchPlaces: fetches of a program that are made where the caller wants them, or in buffers of their own, instead of
// the arena, so that nothing is copied when the step has run.
#ifndef TENON_CORE_EXEC_PROGRAM_FETCH_PLACES_H_
#define TENON_CORE_EXEC_PROGRAM_FETCH_PLACES_H_

#include <vector>

#include "core/exec/program/machine.h"

namespace tenon::exec::program {

class FetchPlaces {
 public:
  // The machine outlives it, and has its views.
  explicit FetchPlaces(Machine* machine);

  // Whether a value of the arena is one of them.
  bool Has(SlotId root) const;
  // Of a program without queues: before a step that keeps its fetches, and after it has run well.
  bool MayMove() const { return !fetches_.empty() && !brings_; }
  Status Move(const Step& step);
  void Give();
  // Of one with queues: what copies from devices bring goes into pinned memory.
  void PlaceBrought(const Step& step);
  // Back into the arena.
  void Restore(char* arena);
  // Whether fetch i was made in a buffer of its own.
  bool IsOwn(size_t i) const;

 private:
  // Nothing has its address but the views. Where queues work, whose pieces are captured with their addresses, it is one
  // that a copy from a device alone makes, and nothing reads.
  struct Movable {
    SlotId root;
    std::vector<SlotId> slots;    // that show its memory
    std::vector<SlotId> fetches;  // of them
    std::vector<size_t> indices;  // of the fetches
    Buffer* buffer = nullptr;     // of this step
    bool moved = false;           // in this step
  };
  bool IsMovable(SlotId fetch, uint64_t least) const;
  bool IsBroughtAlone(SlotId root) const;
  // Where the caller wants one of its fetches: memory that kernels may take for the arena's. nullptr: nowhere.
  void* PlaceOf(const Step& step, const Movable& movable) const;

  Machine& machine_;
  std::vector<Movable> fetches_;
  const bool brings_;  // they are what copies from devices bring: they go into pinned memory, or the arena
};

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_FETCH_PLACES_H_
