// SPDX-License-Identifier: Apache-2.0
#include "core/place/constraints.h"

#include <unordered_map>

#include "core/place/placement_file.h"

namespace tenon::place {
namespace {

// Turns device names into sets; each different name is read once.
class Names {
 public:
  Names(const std::vector<DeviceInfo>& devices, DeviceSets* sets) : devices_(devices), sets_(sets) {}

  Result<int> SetOf(const std::string& text) {
    if (text.empty()) return DeviceSets::kAll;
    if (const auto found = known_.find(text); found != known_.end()) return found->second;
    TENON_RETURN_IF_ERROR(ParseDevices());
    TENON_ASSIGN_OR_RETURN(const DeviceName wish, DeviceName::Parse(text));
    std::vector<bool> members(devices_.size());
    for (size_t i = 0; i < devices_.size(); ++i) members[i] = wish.Matches(parsed_[i]);
    return known_[text] = sets_->Intern(members);
  }

 private:
  Status ParseDevices() {
    for (size_t i = parsed_.size(); i < devices_.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(devices_[i].name));
      parsed_.push_back(std::move(name));
    }
    return Status::Ok();
  }

  const std::vector<DeviceInfo>& devices_;
  DeviceSets* sets_;
  std::vector<DeviceName> parsed_;
  std::unordered_map<std::string, int> known_;
};

// Asks can_run once for each device type.
class Kernels {
 public:
  Kernels(const Request& request, DeviceSets* sets) : request_(request), sets_(sets) {
    const std::vector<DeviceInfo>& devices = *request.devices;
    for (size_t i = 0; i < devices.size(); ++i) {
      size_t first = 0;
      while (devices[first].type != devices[i].type) ++first;
      first_of_type_.push_back(first);
    }
  }

  int SetOf(const graph::Node& node) {
    if (!request_.can_run) return DeviceSets::kAll;
    std::vector<bool>& can = scratch_;
    can.assign(first_of_type_.size(), false);
    bool all = true;
    for (size_t i = 0; i < can.size(); ++i) {
      can[i] = first_of_type_[i] == i ? request_.can_run(node, static_cast<int>(i)) : can[first_of_type_[i]];
      all = all && can[i];
    }
    return all ? DeviceSets::kAll : sets_->Intern(can);
  }

 private:
  const Request& request_;
  DeviceSets* sets_;
  std::vector<size_t> first_of_type_;
  std::vector<bool> scratch_;
};

std::string DeviceList(const std::vector<DeviceInfo>& devices) {
  std::string out;
  for (const DeviceInfo& device : devices) out += StrCat(out.empty() ? "" : ", ", device.name);
  return out.empty() ? "none" : out;
}

Status NoKernel(const Request& request, const graph::Node& node) {
  const std::string why = request.why_none ? request.why_none(node) : "";
  return Unimplemented(StrCat(node.Describe(), ": no device can run it", why.empty() ? "" : ": ", why,
                              "; devices tried: ", DeviceList(*request.devices)));
}

const std::string* HomeOf(const Request& request, const graph::Node& node) {
  if (request.homes == nullptr) return nullptr;
  const auto found = request.homes->find(node.name);
  return found == request.homes->end() ? nullptr : &found->second;
}

}  // namespace

const std::string& WishOf(const Request& request, const graph::Node& node) {
  const std::string* rule = request.file == nullptr ? nullptr : request.file->Find(node.name);
  if (rule != nullptr) return *rule;
  return node.device.empty() ? request.default_device : node.device;
}

Result<Constraints> FindConstraints(const Request& request, DeviceSets* sets) {
  Constraints out;
  Names names(*request.devices, sets);
  Kernels kernels(request, sets);
  for (graph::NodeId id : request.order) {
    const graph::Node& node = request.graph->node(id);
    int runs = kernels.SetOf(node);
    if (sets->empty(runs)) return NoKernel(request, node);
    if (const std::string* home = HomeOf(request, node)) {
      TENON_ASSIGN_OR_RETURN(const int there, names.SetOf(*home));
      runs = sets->Intersect(runs, there);
      if (sets->empty(runs)) return FailedPrecondition(StrCat(node.Describe(), ": its state is on ", *home, ", where it cannot run any more"));
    }
    const std::string& text = WishOf(request, node);
    auto wish = names.SetOf(text);
    if (!wish.ok()) return std::move(wish).status().Annotate(node.Describe());
    if (sets->empty(*wish)) {
      const std::string what = StrCat(node.Describe(), " wants ", text, ", and no device is named so; there are: ", DeviceList(*request.devices));
      if (!request.soft_placement) return NotFound(StrCat(what, "; soft placement would put it elsewhere"));
      out.notes.push_back(StrCat(what, "; it goes elsewhere"));
      wish = DeviceSets::kAll;
    }
    out.kernels.push_back(runs);
    out.wishes.push_back(*wish);
  }
  return out;
}

}  // namespace tenon::place
