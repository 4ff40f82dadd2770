// SPDX-License-Identifier: Apache-2.0
#include "core/place/device_name.h"

#include <algorithm>
#include <charconv>

namespace tenon::place {
namespace {

// ASCII alone, whatever the locale is.
bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool IsWord(std::string_view text) {
  return !text.empty() && IsAlpha(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsAlpha(c) || IsDigit(c) || c == '_'; });
}

Status Bad(std::string_view name, std::string_view why) {
  return InvalidArgument(
      StrCat("'", name, "' is no device name: ", why,
             "; names are like /job:worker/replica:0/task:1/device:TYPE:0, parts may be missing or *"));
}

// Reads one name: each part is "key:value", a type has an index behind it.
class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Result<DeviceName> Read() {
    std::string_view rest = name_;
    if (rest.empty() || rest == "/") return out_;
    if (rest[0] != '/') {
      TENON_RETURN_IF_ERROR(ReadType(rest, false));
      return out_;
    }
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('/', 1), rest.size());
      TENON_RETURN_IF_ERROR(ReadPart(rest.substr(1, end - 1)));
      rest.remove_prefix(end);
    }
    return out_;
  }

 private:
  Status ReadPart(std::string_view part) {
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) return Bad(name_, StrCat("'/", part, "' has no ':'"));
    const std::string_view key = part.substr(0, colon), value = part.substr(colon + 1);
    if (key == "job") return ReadJob(value);
    if (key == "replica") return ReadNumber("replica", value, &out_.replica, &seen_replica_);
    if (key == "task") return ReadNumber("task", value, &out_.task, &seen_task_);
    if (key == "device") return ReadType(value, false);
    return ReadType(part, true);
  }

  Status Once(std::string_view what, bool* seen) {
    if (*seen) return Bad(name_, StrCat("it says its ", what, " twice"));
    *seen = true;
    return Status::Ok();
  }

  Status ReadJob(std::string_view value) {
    TENON_RETURN_IF_ERROR(Once("job", &seen_job_));
    if (value == "*") return Status::Ok();
    if (!IsWord(value)) return Bad(name_, StrCat("a job is letters, digits and '_', not '", value, "'"));
    out_.job = value;
    return Status::Ok();
  }

  Status ReadNumber(std::string_view what, std::string_view value, std::optional<int32_t>* out, bool* seen) {
    TENON_RETURN_IF_ERROR(Once(what, seen));
    if (value == "*") return Status::Ok();
    int32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 0)
      return Bad(name_, StrCat("the ", what, " is a number, not '", value, "'"));
    *out = number;
    return Status::Ok();
  }

  // "TYPE", "TYPE:3", "TYPE:*", "*", "*:3"; in the short form the type is upper-cased.
  Status ReadType(std::string_view text, bool upper) {
    TENON_RETURN_IF_ERROR(Once("device type", &seen_type_));
    const size_t colon = text.find(':');
    const std::string_view type = text.substr(0, colon);
    if (colon != std::string_view::npos) {
      bool seen = false;
      TENON_RETURN_IF_ERROR(ReadNumber("device's index", text.substr(colon + 1), &out_.id, &seen));
    }
    if (type == "*") return Status::Ok();
    if (!IsWord(type)) return Bad(name_, StrCat("a device type is letters, digits and '_', not '", type, "'"));
    out_.type = type;
    if (upper) std::transform(type.begin(), type.end(), out_.type->begin(), Upper);
    return Status::Ok();
  }

  std::string_view name_;
  DeviceName out_;
  bool seen_job_ = false, seen_replica_ = false, seen_task_ = false, seen_type_ = false;
};

template <typename T>
bool Contradict(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}
template <typename T>
void TakeMissing(std::optional<T>* target, const std::optional<T>& from) {
  if (!*target) *target = from;
}
template <typename T>
bool Says(const std::optional<T>& wish, const std::optional<T>& found) {
  return !wish || (found && *wish == *found);
}

}  // namespace

bool SameType(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Upper(x) == Upper(y); });
}

Result<DeviceName> DeviceName::Parse(std::string_view text) { return Reader(text).Read(); }

std::string DeviceName::ToString() const {
  std::string out;
  if (job) out += StrCat("/job:", *job);
  if (replica) out += StrCat("/replica:", *replica);
  if (task) out += StrCat("/task:", *task);
  if (type || id) out += StrCat("/device:", type ? *type : "*", ":", id ? std::to_string(*id) : "*");
  return out;
}

bool DeviceName::Matches(const DeviceName& other) const {
  return Says(job, other.job) && Says(replica, other.replica) && Says(task, other.task) && Says(id, other.id) &&
         (!type || (other.type && SameType(*type, *other.type)));
}

void DeviceName::Complete(const DeviceName& other) {
  TakeMissing(&job, other.job);
  TakeMissing(&replica, other.replica);
  TakeMissing(&task, other.task);
  TakeMissing(&type, other.type);
  TakeMissing(&id, other.id);
}

Status DeviceName::Merge(const DeviceName& other, bool soft) {
  const bool types_differ = type && other.type && !SameType(*type, *other.type);
  const bool ids_differ = Contradict(id, other.id);
  const char* what = Contradict(job, other.job)           ? "jobs"
                     : Contradict(replica, other.replica) ? "replicas"
                     : Contradict(task, other.task)       ? "tasks"
                     : types_differ && !soft              ? "device types"
                     : ids_differ && !soft                ? "device indices"
                                                          : nullptr;
  if (what != nullptr)
    return InvalidArgument(
        StrCat("'", ToString(), "' and '", other.ToString(), "' cannot both hold: their ", what, " differ"));
  Complete(other);
  if (types_differ) type.reset();
  if (types_differ || ids_differ) id.reset();
  return Status::Ok();
}

Result<std::string> TaskName(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(text));
  if (!name.job || name.type || name.id)
    return InvalidArgument(StrCat("'", text, "' is no task; write \"/job:worker/task:1\""));
  name.replica = name.replica.value_or(0);
  name.task = name.task.value_or(0);
  return name.ToString();
}

}  // namespace tenon::place
