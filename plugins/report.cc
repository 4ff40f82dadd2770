// SPDX-License-Identifier: Apache-2.0
#include "plugins/report.h"

#include <utility>

namespace tenon::plugins {
namespace {

struct ReasonRow {
  Reason reason;
  std::string_view name;
  Code code;
};

constexpr ReasonRow kReasons[] = {
    {Reason::kOk, "OK", Code::kOk},
    {Reason::kBarePath, "BARE_PATH", Code::kInvalidArgument},
    {Reason::kRelativeFolder, "RELATIVE_FOLDER", Code::kInvalidArgument},
    {Reason::kNotFound, "NOT_FOUND", Code::kNotFound},
    {Reason::kUnreadable, "UNREADABLE", Code::kPermissionDenied},
    {Reason::kNotALibrary, "NOT_A_LIBRARY", Code::kInvalidArgument},
    {Reason::kWrongArchitecture, "WRONG_ARCHITECTURE", Code::kFailedPrecondition},
    {Reason::kDamaged, "DAMAGED", Code::kDataLoss},
    {Reason::kSameFile, "SAME_FILE", Code::kAlreadyExists},
    {Reason::kNotTrusted, "NOT_TRUSTED", Code::kPermissionDenied},
    {Reason::kChanged, "CHANGED", Code::kAborted},
    {Reason::kNoManifest, "NO_MANIFEST", Code::kFailedPrecondition},
    {Reason::kBadManifest, "BAD_MANIFEST", Code::kInvalidArgument},
    {Reason::kDisabled, "DISABLED", Code::kFailedPrecondition},
    {Reason::kCpuFeature, "CPU_FEATURE", Code::kFailedPrecondition},
    {Reason::kBetterVariant, "BETTER_VARIANT", Code::kFailedPrecondition},
    {Reason::kShadowed, "SHADOWED", Code::kFailedPrecondition},
    {Reason::kForbiddenLibrary, "FORBIDDEN_LIBRARY", Code::kFailedPrecondition},
    {Reason::kMissingLibrary, "MISSING_LIBRARY", Code::kFailedPrecondition},
    {Reason::kMissingSymbol, "MISSING_SYMBOL", Code::kFailedPrecondition},
    {Reason::kOpenFailed, "OPEN_FAILED", Code::kFailedPrecondition},
    {Reason::kNoEntryPoint, "NO_ENTRY_POINT", Code::kInvalidArgument},
    {Reason::kQueryRejected, "QUERY_REJECTED", Code::kFailedPrecondition},
    {Reason::kAbiMajor, "ABI_MAJOR", Code::kFailedPrecondition},
    {Reason::kLayout, "LAYOUT", Code::kFailedPrecondition},
    {Reason::kMustUnderstand, "MUST_UNDERSTAND", Code::kUnimplemented},
    {Reason::kBadDescriptor, "BAD_DESCRIPTOR", Code::kInvalidArgument},
    {Reason::kManifestMismatch, "MANIFEST_MISMATCH", Code::kInvalidArgument},
    {Reason::kNoCapability, "NO_CAPABILITY", Code::kInvalidArgument},
    {Reason::kDuplicateId, "DUPLICATE_ID", Code::kAlreadyExists},
    {Reason::kUnknownOption, "UNKNOWN_OPTION", Code::kInvalidArgument},
    {Reason::kBadOption, "BAD_OPTION", Code::kInvalidArgument},
    {Reason::kLoadFailed, "LOAD_FAILED", Code::kFailedPrecondition},
    {Reason::kInUse, "IN_USE", Code::kFailedPrecondition},
    {Reason::kNotLoaded, "NOT_LOADED", Code::kFailedPrecondition},
};

const ReasonRow& RowOf(Reason reason) {
  for (const ReasonRow& row : kReasons) {
    if (row.reason == reason) return row;
  }
  return kReasons[0];
}

}  // namespace

std::string_view ReasonName(Reason reason) { return RowOf(reason).name; }

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kLoaded: return "loaded";
    case Outcome::kRejected: return "rejected";
    case Outcome::kNotChosen: return "not chosen";
    case Outcome::kAlreadyLoaded: return "already loaded";
    case Outcome::kUnloaded: return "unloaded";
  }
  return "rejected";
}

LoadReport Reject(std::string path, Reason reason, std::string text, std::string hint, std::string missing) {
  LoadReport report;
  report.path = std::move(path);
  report.outcome = Outcome::kRejected;
  report.reason = reason;
  report.text = std::move(text);
  report.hint = std::move(hint);
  report.missing = std::move(missing);
  return report;
}

Status ToStatus(const LoadReport& report) {
  if (report.reason == Reason::kOk) return Status::Ok();
  std::string message = StrCat("plugin '", report.id.empty() ? report.path : report.id, "'");
  if (!report.id.empty() && !report.path.empty()) message += StrCat(" (", report.path, ")");
  const bool attempt = report.reason != Reason::kInUse && report.reason != Reason::kNotLoaded;
  message += attempt ? StrCat(" ", OutcomeName(report.outcome), ": ", report.text) : StrCat(": ", report.text);
  if (!report.hint.empty()) message += StrCat("; ", report.hint);
  return Status(RowOf(report.reason).code, std::move(message));
}

}  // namespace tenon::plugins
