// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as the GPU plugins' runtime.
#include <mutex>

#include "api.h"
#include "driver_card.h"
#include "images.h"
#include "options.h"

namespace tenon::gpu {
namespace {

class CudaRuntime final : public Runtime {
 public:
  Outcome Count(uint32_t* out_count) override {
    std::call_once(once_, [this] { opened_ = api_.Open(); });
    if (!opened_.ok()) return opened_;
    int count = 0;
    Outcome outcome = ToOutcome(api_, api_.DeviceCount(&count), "cuDeviceGetCount");
    *out_count = static_cast<uint32_t>(count);
    return outcome;
  }
  Outcome Open(uint32_t index, std::unique_ptr<Card>* out_card) override {
    auto card = std::make_unique<DriverCard<CudaApi>>(api_);
    Outcome outcome = card->Open(index);
    if (outcome.ok()) *out_card = std::move(card);
    return outcome;
  }
  std::vector<Image> Images() override { return EmbeddedImages(); }

 private:
  std::once_flag once_;
  Outcome opened_;
  CudaApi api_;
};

}  // namespace

const Vendor kVendor = {"tenon.cuda", "CUDA", [](const Options&) -> std::unique_ptr<Runtime> { return std::make_unique<CudaRuntime>(); }};

}  // namespace tenon::gpu
