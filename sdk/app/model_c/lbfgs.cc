// SPDX-License-Identifier: Apache-2.0
// L-BFGS, of train.h.
#include "tenon/train/lbfgs.h"

#include "sdk/app/model_c/building.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

Result<train::LbfgsOptions> ReadLbfgsOptions(const tenon_lbfgs_options* given) {
  tenon_lbfgs_options options;
  TENON_TRY(ReadStruct(given, false, "options", &options));
  train::LbfgsOptions out;
  const auto take = [](auto value, auto* to) {
    if (value != 0) *to = value;
  };
  take(options.history, &out.history);
  take(options.max_iterations, &out.max_iterations);
  take(options.max_evaluations, &out.max_evaluations);
  take(options.gradient_tolerance, &out.gradient_tolerance);
  take(options.sufficient_decrease, &out.sufficient_decrease);
  take(options.curvature, &out.curvature);
  return out;
}

tenon_lbfgs_result ResultOf(const train::LbfgsResult& result) {
  static_assert(static_cast<uint32_t>(train::LbfgsResult::End::kGradient) == TENON_LBFGS_GRADIENT &&
                static_cast<uint32_t>(train::LbfgsResult::End::kIterations) == TENON_LBFGS_ITERATIONS &&
                static_cast<uint32_t>(train::LbfgsResult::End::kNoStep) == TENON_LBFGS_NO_STEP);
  return {sizeof(tenon_lbfgs_result),
          0,
          static_cast<uint32_t>(result.end),
          0,
          result.iterations,
          result.evaluations,
          result.left_out,
          result.loss,
          result.gradient_norm};
}

}  // namespace

extern "C" {

tenon_status* tenon_lbfgs_create(tenon_variables* variables, tenon_output loss, const tenon_lbfgs_options* given,
                                 tenon_lbfgs** out_lbfgs) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_lbfgs);
    TENON_TRY_ASSIGN(train::LbfgsOptions options, ReadLbfgsOptions(given));
    TENON_TRY_ASSIGN(const Output of, ReadEdge(variables->graph.get(), loss, "loss"));
    auto made = std::make_unique<tenon_lbfgs>();
    options.after_iteration = [self = made.get()](const train::LbfgsResult& result) {
      if (self->told) self->told(result);
    };
    made->lbfgs.emplace(variables->model, of, options);
    TENON_TRY(variables->graph.status());
    *out_lbfgs = made.release();
    return Status();
  });
}

void tenon_lbfgs_release(tenon_lbfgs* lbfgs) { delete lbfgs; }

tenon_status* tenon_lbfgs_run(tenon_lbfgs* lbfgs, tenon_session* session, const tenon_run_options* given,
                              const tenon_span* feed_names, const tenon_tensor_view* const* feeds, uint64_t feed_count,
                              void (*after_iteration)(void* argument, const tenon_lbfgs_result* so_far), void* argument,
                              tenon_lbfgs_result* out_result) {
  return Guard([&]() -> Status {
    TENON_CHECK(lbfgs, session, out_result);
    RunOptions options;
    TENON_TRY(options.Read(given));
    if (options.get().trace != nullptr)
      return Status(Code::kInvalidArgument,
                    "'out_trace' is not NULL; a run of L-BFGS is many steps, and gives no trace");
    TENON_TRY_ASSIGN(const NamedViews views, ReadViews(feed_names, feeds, feed_count, "feed"));
    std::vector<host::Feed> named;
    for (const auto& [name, view] : views) named.push_back({name, view});
    if (after_iteration != nullptr)
      lbfgs->told = [&](const train::LbfgsResult& so_far) {
        const tenon_lbfgs_result told = ResultOf(so_far);
        after_iteration(argument, &told);
      };
    const auto over =
        std::unique_ptr<tenon_lbfgs, void (*)(tenon_lbfgs*)>(lbfgs, [](tenon_lbfgs* ended) { ended->told = nullptr; });
    TENON_TRY_ASSIGN(const train::LbfgsResult result,
                     lbfgs->lbfgs->Run(host::Session::Borrow(session), named, options.get()));
    return WriteStruct(ResultOf(result), out_result);
  });
}

}  // extern "C"
