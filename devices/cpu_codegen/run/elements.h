// SPDX-License-Identifier: Apache-2.0
// A region of elements of one shape: which ones the code is called with, and by which threads.
#ifndef TENON_DEVICES_CPU_CODEGEN_RUN_ELEMENTS_H_
#define TENON_DEVICES_CPU_CODEGEN_RUN_ELEMENTS_H_

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "region/region.h"
#include "run/broadcast.h"
#include "run/chain_stages.h"
#include "run/executable.h"

namespace tenon::cpu_codegen {

struct ElementExecutable : Executable {
  static std::unique_ptr<Executable> Make(Region region);
  void Run(tenon_frame& frame) const override;

 private:
  friend class ElementMaker;
  // Where the program's inputs and then its outputs begin.
  struct Bases {
    std::array<char*, kMostInputs + kMostOutputs> at;
    bool may_stream = true;  // past the caches
  };
  void RunRows(const Bases& bases, int64_t begin, int64_t end) const;
  void RunTiles(const Bases& bases, int64_t begin, int64_t end) const;
  // An input that is broadcast, or a part, beside the element `at` of a row.
  void PlaceSpread(const Bases& bases, size_t spread, int64_t row, int64_t at, Operands* operands) const;
  // Operands at an element.
  Operands OperandsAt(const Bases& bases, int64_t element) const;
  void RunUpdate(const sdk::RunContext& c, Bases& bases, int64_t units, double cost) const;

  Stages stages_;
  std::vector<int32_t>
      sources_;  // of inputs: numbers among the frame's; not of the update's own, which are the last ones
  std::optional<RegionUpdate> update_;
  uint32_t update_flags_ = 0;           // TENON_UPDATE_*
  std::vector<int64_t> shape_;          // of elements
  std::vector<int64_t> steps_,
      sizes_;  // of inputs: bytes from element to element as the code walks; then bytes of outputs' elements
  std::vector<bool> is_even_;           // of inputs: they are read where the shape's elements are
  SpreadDims dims_;
  std::vector<Spread> spreads_;
  std::vector<int32_t> part_of_;        // of spreads: which part each is; -1: none
  std::vector<Part> parts_;
  std::vector<Target> targets_;         // of outputs, without the update's
  std::vector<std::pair<int32_t, int32_t>> copies_;  // parts, and outputs of the frame
  bool by_row_ = false;                 // rows are called one by one: of gathers whose rows are long
  int64_t total_ = 0;
  int64_t piece_ = 0;         // elements of a unit that threads share: of a row, or so many rows
  bool lays_out_ = false;     // spreads are laid out, piece by piece; else rows are called one by one
  double cost_ = 0;           // nanoseconds of an element
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_RUN_ELEMENTS_H_
