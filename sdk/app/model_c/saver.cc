// SPDX-License-Identifier: Apache-2.0
// The savers of train.h.
#include "tenon/train/saver.h"

#include "sdk/app/model_c/objects.h"
#include "tenon/train.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

constexpr uint32_t kMostKept = 1u << 30;

Result<train::SaverOptions> ReadSaverOptions(const tenon_saver_options* given) {
  tenon_saver_options options;
  TENON_TRY(ReadStruct(given, false, "options", &options));
  if (!(options.keep_every_hours >= 0))
    return Status(Code::kInvalidArgument, "'keep_every_hours' is " + std::to_string(options.keep_every_hours));
  train::SaverOptions out;
  if (options.keep != 0) out.keep = static_cast<int>(std::min(options.keep, kMostKept));
  out.keep_best = static_cast<int>(std::min(options.keep_best, kMostKept));
  out.keep_every_hours = options.keep_every_hours;
  out.higher_is_better = options.higher_is_better != 0;
  for (uint64_t i = 0; i < options.variable_count; ++i)
    out.variables.push_back({Copy(options.variables[i].variable), Copy(options.variables[i].name)});
  if (options.step_variable.size != 0) out.step_variable = Copy(options.step_variable);
  return out;
}

}  // namespace

extern "C" {

tenon_status* tenon_saver_create(tenon_variables* variables, tenon_span folder, const tenon_saver_options* given,
                                 tenon_saver** out_saver) {
  return Guard([&]() -> Status {
    TENON_CHECK(variables, folder, out_saver);
    if (folder.size == 0) return Status(Code::kInvalidArgument, "'folder' is empty");
    TENON_TRY_ASSIGN(train::SaverOptions options, ReadSaverOptions(given));
    auto saver = std::make_unique<tenon_saver>(variables, Copy(folder), std::move(options));
    TENON_TRY(variables->graph.TakeStatus());
    *out_saver = saver.release();
    return Status();
  });
}

void tenon_saver_release(tenon_saver* saver) { delete saver; }

tenon_status* tenon_saver_claim(tenon_saver* saver) {
  return Guard([&]() -> Status {
    TENON_CHECK(saver);
    return saver->saver.Claim();
  });
}

tenon_status* tenon_saver_save(tenon_saver* saver, tenon_session* session, int64_t step, const double* metric,
                               tenon_text** out_prefix) {
  return Guard([&]() -> Status {
    TENON_CHECK(saver, session);
    const std::optional<double> value = metric == nullptr ? std::nullopt : std::optional(*metric);
    TENON_TRY_ASSIGN(const std::string prefix, saver->saver.Save(host::Session::Borrow(session), step, value));
    return out_prefix == nullptr ? Status() : GiveText(prefix, out_prefix);
  });
}

tenon_status* tenon_saver_restore_newest(tenon_saver* saver, tenon_session* session, tenon_restored* out_restored) {
  return Guard([&]() -> Status {
    TENON_CHECK(saver, session, out_restored);
    TENON_TRY_ASSIGN(saver->restored, saver->saver.RestoreNewest(host::Session::Borrow(session)));
    saver->warnings.clear();
    for (const std::string& warning : saver->restored.warnings) saver->warnings += warning + "\n";
    return WriteStruct(tenon_restored{sizeof(tenon_restored), 0, Span(saver->restored.prefix), Span(saver->warnings),
                                      saver->restored.step},
                       out_restored);
  });
}

tenon_status* tenon_saver_restore_from(tenon_saver* saver, tenon_session* session, tenon_span prefix) {
  return Guard([&]() -> Status {
    TENON_CHECK(saver, session, prefix);
    return saver->saver.RestoreFrom(host::Session::Borrow(session), Copy(prefix));
  });
}

tenon_status* tenon_saver_clear(tenon_saver* saver) {
  return Guard([&]() -> Status {
    TENON_CHECK(saver);
    return saver->saver.Clear();
  });
}

}  // extern "C"
