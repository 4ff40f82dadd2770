// SPDX-License-Identifier: Apache-2.0
#include "fuse/compiler.h"

#include "driver.h"
#include "fuse/attention.h"
#include "fuse/batch_norm.h"
#include "fuse/chain.h"
#include "fuse/claiming.h"
#include "fuse/product.h"
#include "fuse/rows.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

struct Compiler {
  static constexpr tenon_span kDeviceType = sdk::ToSpan(gpu::kDeviceType);
  static constexpr int32_t kPriority = 0;
  using Executable = gpu::Executable;

  static void Claim(const tenon_plugin_self*, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes,
                    const tenon_device* device, const sdk::Claims& claims) {
    if (OwnDevice(device) != nullptr) ClaimNodes(cursor, nodes, claims);
  }
  static std::unique_ptr<Executable> Compile(const tenon_plugin_self*, const tenon_compile_args& args) {
    Device& device = RequireOwn(args.device);
    if (IsProduct(args)) return MakeProduct(args, device);
    if (IsAttention(args)) return MakeAttention(args, device);
    if (IsBatchNorm(args)) return MakeBatchNorm(args, device);
    return HasOpsOfRows(args) ? MakeRows(args, device) : MakeChain(args, device);
  }
};

}  // namespace

constinit const tenon_compiler kCompiler = sdk::kCompilerTable<Compiler>;

}  // namespace tenon::gpu
