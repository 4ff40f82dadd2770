// SPDX-License-Identifier: Apache-2.0
// TestDamage: a variant whose elements are bytes, with some of those changed, as `seed` says; what reads variants of
// strangers gets such.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/kernel/variant.h"
#include "tenon/sdk/op/op.h"
#include "tenon/sdk/package.h"

namespace tenon::test {

using namespace sdk;  // NOLINT(google-build-using-namespace): an op's file

struct Damage {
  void Run(RunContext c) const {
    std::mt19937_64 random(static_cast<uint64_t>(*c.input<int64_t>(1)));
    const auto below = [&random](uint64_t bound) { return random() % bound; };
    tenon_variant_info info{};
    const tenon_variant* const variant = VariantOf(c.input_view(0));
    c.services().variant_info(variant, &info);
    std::vector<char> bytes;
    for (uint64_t i = 0; i < info.element_count; ++i) {
      tenon_tensor_view element{};
      c.services().variant_element(variant, i, &element);
      bytes.insert(bytes.end(), Data<const char>(element), Data<const char>(element) + Count(element));
    }
    for (uint64_t changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) {
      const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size()));
      switch (below(5)) {
        case 0: *at = static_cast<char>(random()); break;
        case 1: *at = static_cast<char>(*at ^ (1 << below(8))); break;
        case 2:
          bytes.erase(at, at + static_cast<std::ptrdiff_t>(
                                   std::min<uint64_t>(below(9), static_cast<uint64_t>(bytes.end() - at))));
          break;
        case 3: bytes.erase(at, bytes.end()); break;
        default: bytes.insert(at, 1 + below(9), static_cast<char>(random())); break;
      }
    }
    const int64_t dims[] = {static_cast<int64_t>(bytes.size())};
    const KeptTensor damaged = NewTensor(c, TENON_DT_UINT8, dims);
    if (!bytes.empty()) std::memcpy(Data<char>(damaged.view()), bytes.data(), bytes.size());
    const tenon_tensor_view view = damaged.view();
    tenon_variant* made = nullptr;
    Check(c.services().variant_new(c.frame(), info.type, info.metadata, &view, 1, &made));
    SetVariant(c, 0, made);
  }
};

TENON_KERNEL(kDamageKernel) = Registration<Damage>("TestDamage", {.dynamic_outputs = 1});
TENON_OP(kDamage) = DefineOp({.name = "TestDamage", .inputs = "x: variant, seed: int64", .outputs = "y: variant",
                              .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT, .shape = ShapeFunction<ScalarShape>});

}  // namespace tenon::test

TENON_OP_AND_KERNEL_PLUGIN("tenon.test.variant", "0.1.0", "Damages variants.")
