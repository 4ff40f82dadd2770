// SPDX-License-Identifier: Apache-2.0
// The HIP runtime as the GPU plugins' runtime.
#include <mutex>

#include "api.h"
#include "driver_card.h"
#include "images.h"
#include "options.h"

namespace tenon::gpu {
namespace {

class HipRuntime final : public Runtime {
 public:
  Outcome Count(uint32_t* out_count) override {
    std::call_once(once_, [this] { opened_ = api_.Open(); });
    if (!opened_.ok()) return opened_;
    int count = 0;
    Outcome outcome = ToOutcome(api_, api_.DeviceCount(&count), "hipGetDeviceCount");
    *out_count = static_cast<uint32_t>(count);
    return outcome;
  }
  Outcome Open(uint32_t index, std::unique_ptr<Card>* out_card) override {
    auto card = std::make_unique<DriverCard<HipApi>>(api_);
    Outcome outcome = card->Open(index);
    if (outcome.ok()) *out_card = std::move(card);
    return outcome;
  }
  std::vector<Image> Images() override { return EmbeddedImages(); }

 private:
  std::once_flag once_;
  Outcome opened_;
  HipApi api_;
};

}  // namespace

const Vendor kVendor = {"tenon.rocm", "ROCm", [](const Options&) -> std::unique_ptr<Runtime> { return std::make_unique<HipRuntime>(); }};

}  // namespace tenon::gpu
