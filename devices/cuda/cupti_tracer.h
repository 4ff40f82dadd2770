// SPDX-License-Identifier: Apache-2.0
// CuptiTracer: the Tracer of one GPU by CUPTI, which is one for the process (cupti_library.h).
#ifndef TENON_DEVICES_CUDA_CUPTI_TRACER_H_
#define TENON_DEVICES_CUDA_CUPTI_TRACER_H_

#include <vector>

#include "cupti_library.h"
#include "tracer.h"

namespace tenon::gpu {

class CuptiTracer final : public Tracer {
 public:
  explicit CuptiTracer(const Options& options) : options_(options) {}
  ~CuptiTracer() override {
    if (cupti_ != nullptr) cupti_->RemoveOwner(owner_);
  }
  CuptiTracer(const CuptiTracer&) = delete;
  CuptiTracer& operator=(const CuptiTracer&) = delete;

  // The library is looked for now, not when a GPU is opened.
  bool Start() override {
    if (cupti_ == nullptr) {
      cupti_ = &Cupti::At(options_);
      owner_ = cupti_->AddOwner();
    }
    return cupti_->Start();
  }
  void Stop() override { cupti_->Stop(); }
  bool Begin(uint64_t piece) override { return cupti_->Push(owner_, piece); }
  void End() override { cupti_->Pop(); }
  void Collect(std::vector<Record>* out_records) override { cupti_->Collect(owner_, out_records); }

 private:
  const Options options_;
  Cupti* cupti_ = nullptr;
  uint64_t owner_ = 0;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_CUDA_CUPTI_TRACER_H_
