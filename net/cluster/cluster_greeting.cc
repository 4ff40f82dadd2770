// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/cluster_greeting.h"

#include <algorithm>

#include "core/base/clock.h"
#include "net/cluster/protocol.h"
#include "net/cluster/secret.h"

namespace tenon::cluster {
namespace {

std::vector<std::string> Addresses(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) found.push_back(WithScheme(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

// The folder of a socket's path, "grpc:///folder/" of "grpc:///folder/name"; empty for what is no path, or leads
// elsewhere.
std::string_view FolderOf(std::string_view address) {
  const size_t begin = address.find(":///");
  if (begin == std::string_view::npos || address.find("/..") != std::string_view::npos) return {};
  return address.substr(0, address.rfind('/') + 1);
}

}  // namespace

Status ClusterGreeting::CheckGiven(const std::vector<std::string>& given, const Task& task) {
  const std::string address = WithScheme(task.address());
  for (const std::string& each : given)
    if (each == address || (!FolderOf(each).empty() && FolderOf(each) == FolderOf(address))) return Status::Ok();
  return Status(
      Code::kPermissionDenied,
      StrCat("the task at ", given[0], " says that task ", task.name(), " is at ", address,
             ", which was not given: the credentials are not shown there. Give it too, separated by a comma (--master ",
             given[0], ",", address, "), or the whole cluster (--cluster FILE)"));
}

Status ClusterGreeting::Greet(std::string_view address, uint64_t deadline_ns, HelloReply* out) {
  auto connection = session_->network().Connect(address, deadline_ns);
  if (!connection.ok()) return std::move(connection).status();
  HelloRequest head;
  head.set_protocol(kProtocol);
  head.set_version(std::string(kVersion));
  return Ask(**connection, kMethodHello, head, deadline_ns, out);
}

Status ClusterGreeting::GreetAny(uint64_t deadline_ns, HelloReply* out) {
  Status first;
  for (const std::string& address : given_) {
    const uint64_t left = deadline_ns - std::min(NowNs(), deadline_ns);
    Status status = Greet(address, &address == &given_.back() ? deadline_ns : NowNs() + left / 2, out);
    if (status.ok()) return status;
    if (first.ok()) first = std::move(status).Annotate(StrCat("the cluster of ", address));
  }
  return first;
}

Status ClusterGreeting::ReadFilters() {
  std::string_view text = options_.session.device_filters;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) {
      auto filter = place::DeviceName::Parse(text.substr(0, end));
      if (!filter.ok()) return std::move(filter).status().Annotate("the session option 'device_filters'");
      filters_.push_back(*std::move(filter));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Status::Ok();
}

bool ClusterGreeting::IsVisible(const place::DeviceName& name, bool whole_task) const {
  return filters_.empty() || std::any_of(filters_.begin(), filters_.end(), [&](place::DeviceName filter) {
    if (whole_task) {
      filter.type.reset();
      filter.id.reset();
    }
    return filter.Matches(name);
  });
}

Status ClusterGreeting::AddDevices(const HelloReply& hello) {
  for (const DeviceInfo& device : hello.devices()) {
    TENON_ASSIGN_OR_RETURN(const place::DeviceName name, place::DeviceName::Parse(device.name()));
    if (IsVisible(name, /*whole_task=*/false)) session_->Add(DeviceFrom(device));
  }
  return Status::Ok();
}

Status ClusterGreeting::Open(size_t task, uint64_t deadline_ns, const HelloReply& hello) {
  TaskTable& tasks = session_->tasks();
  if (hello.task() != tasks.task(task).name())
    return FailedPrecondition(StrCat("it says that it is ", hello.task(), "; do all tasks have the same cluster?"));
  TENON_RETURN_IF_ERROR(AddDevices(hello));
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Connection> connection,
                         session_->network().Connect(tasks.task(task).address(), deadline_ns));
  tasks.Join(task, hello.incarnation(), connection);
  const Owner owner = Owner::Of(options_.session.owner);
  OpenSession head;
  head.set_session(session_->number());
  head.set_incarnation(hello.incarnation());
  head.set_isolate(options_.session.isolate);
  head.set_owner(owner.name);
  head.set_owner_secret(owner.secret);
  for (const session::CarriedOption& option : session::Carried(options_.session)) {
    SessionOption* const added = head.add_options();
    added->set_name(std::string(option.name));
    added->set_number(option.number);
    added->set_text(std::string(option.text));
  }
  head.set_lease_ns(options_.lease_ns);
  head.set_silence_ns(options_.silence_ns);
  TENON_RETURN_IF_ERROR(Ask(*connection, kMethodOpen, head, deadline_ns));
  tasks.Heard(task);
  return Status::Ok();
}

Status ClusterGreeting::Join() {
  TaskTable& tasks = session_->tasks();
  HelloReply first;
  given_ = Addresses(options_.address);
  if (given_.empty()) return InvalidArgument("the cluster's address is empty");
  const uint64_t deadline_ns = NowNs() + options_.connect_ns;
  TENON_RETURN_IF_ERROR(ReadFilters());
  TENON_RETURN_IF_ERROR(GreetAny(deadline_ns, &first));
  std::string known;
  for (const Task& task : first.tasks()) {
    known += StrCat(known.empty() ? "" : ", ", task.name());
    const auto name = place::DeviceName::Parse(task.name());
    if (name.ok() && IsVisible(*name, /*whole_task=*/true)) tasks.Add(task);
  }
  if (tasks.size() == 0)
    return NotFound(StrCat("the session option 'device_filters' is ", options_.session.device_filters,
                           ", which leaves no task of the cluster of ", given_[0], "; it has: ", known));
  for (size_t i = 0; i < tasks.size(); ++i) {
    HelloReply hello;
    if (!options_.credentials.empty()) TENON_RETURN_IF_ERROR(CheckGiven(given_, tasks.task(i)));
    Status status = Greet(tasks.task(i).address(), deadline_ns, &hello);
    if (status.ok()) status = Open(i, deadline_ns, hello);
    if (!status.ok()) return std::move(status).Annotate(tasks.Where(i));
  }
  if (session_->devices().empty())
    return FailedPrecondition(StrCat("the cluster of ", given_[0], " has no device",
                                     filters_.empty() ? "" : " that the session option 'device_filters' leaves"));
  return Status::Ok();
}

}  // namespace tenon::cluster
