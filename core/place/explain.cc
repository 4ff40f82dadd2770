// SPDX-License-Identifier: Apache-2.0
#include "core/place/explain.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "core/base/json_escape.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/place/constraints.h"

namespace tenon::place {
namespace {

// Pixels need no more.
std::string Round(double number) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::fixed, 2).ptr);
}

// "12.30 us".
std::string Duration(double seconds) {
  if (seconds <= 0) return "0 s";
  const struct {
    double unit;
    const char* name;
  } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  for (const auto& unit : units)
    if (seconds >= unit.unit) return StrCat(Round(seconds / unit.unit), " ", unit.name);
  return StrCat(Round(seconds * 1e9), " ns");
}

std::string Quoted(std::string_view text) { return StrCat("\"", JsonEscape(text), "\""); }

class JsonWriter {
 public:
  JsonWriter(const Request& request, const Placement& placement) : request_(request), placement_(placement) {
    for (const NodeSpan& span : placement.node_spans) spans_.emplace(span.node, &span);
  }

  std::string Write(const std::map<std::string, CostError>& costs, const std::vector<Refusal>& refusals) const {
    std::string out = StrCat("{\"seconds\":", Text(placement_.seconds), ",\"transfers\":", placement_.transfers,
                             ",\"transfer_bytes\":", Text(placement_.transfer_bytes));
    out += StrCat(",\n\"notes\":", List(placement_.notes, [](const std::string& note) { return Quoted(note); }));
    out += StrCat(",\n\"devices\":", Devices());
    out += StrCat(",\n\"nodes\":", List(placement_.sequence, [this](graph::NodeId id) { return Node(id); }));
    out += StrCat(",\n\"transfer_spans\":",
                  List(placement_.transfer_spans, [this](const TransferSpan& span) { return Transfer(span); }));
    if (!costs.empty())
      out += StrCat(",\n\"costs\":", List(costs, [](const auto& entry) { return Cost(entry.first, entry.second); }));
    if (!refusals.empty()) out += StrCat(",\n\"refusals\":", List(refusals, Refused));
    return out + "}\n";
  }

 private:
  template <typename Range, typename Function>
  static std::string List(const Range& range, const Function& function) {
    std::string out = "[";
    for (const auto& item : range) out += StrCat(out.size() == 1 ? "\n" : ",\n", function(item));
    return out + "]";
  }
  std::string DeviceName(DeviceId device) const { return Quoted((*request_.devices)[device].name); }
  DeviceId DeviceOf(graph::NodeId node) const { return placement_.device_of_node[node]; }
  std::string NameOf(graph::NodeId node) const { return request_.graph->node(node).Describe(); }

  std::string Devices() const {
    IdVector<DeviceId, double> busy(request_.devices->size());
    IdVector<DeviceId, int64_t> nodes(busy.size());
    for (const NodeSpan& span : placement_.node_spans) {
      busy[span.device] += span.finish - span.start;
      ++nodes[span.device];
    }
    std::string out;
    for (DeviceId d : busy.ids()) {
      const DeviceInfo& device = (*request_.devices)[d];
      out += StrCat(d == DeviceId(0) ? "\n" : ",\n", "{\"name\":", Quoted(device.name),
                    ",\"type\":", Quoted(device.type), ",\"nodes\":", nodes[d], ",\"busy_seconds\":", Text(busy[d]),
                    ",\"peak_bytes\":", Text(placement_.peak_bytes.Get(d, 0)),
                    ",\"memory_bytes\":", Text(device.memory_bytes), "}");
    }
    return StrCat("[", out, "]");
  }

  std::string Why(graph::NodeId id, const std::vector<Alternative>& alternatives) const {
    const Choice& choice = placement_.choices[id];
    switch (choice.reason) {
      case Reason::kOnlyDevice: return "there is one device";
      case Reason::kOnlyKernel: return "no other device has a kernel for it";
      case Reason::kDeviceName:
        return StrCat("its device name, or that of a node it must be with, says so: ",
                      WishOf(request_, request_.graph->node(id)));
      case Reason::kState: return "it is state that names no one device: every client of the cluster puts it there";
      case Reason::kTogether: return StrCat("it goes with ", NameOf(choice.with));
      case Reason::kPlacer: return StrCat("placer '", request_.placer_name, "' chose it");
      case Reason::kEarliestFinish: break;
    }
    std::string out = "the step is shortest so, as far as was searched";
    for (const Alternative& other : alternatives)
      out += StrCat(&other == alternatives.data() ? "; the node would be done after " : ", ", Duration(other.seconds),
                    " on ", (*request_.devices)[other.device].name);
    return out;
  }

  std::string Node(graph::NodeId id) const {
    const graph::Node& node = request_.graph->node(id);
    const Choice& choice = placement_.choices[id];
    static const std::vector<Alternative> kNone;
    const std::vector<Alternative>& alternatives =
        placement_.alternatives.empty() ? kNone : placement_.alternatives[id];
    std::string out = StrCat(
        "{\"name\":", Quoted(node.name), ",\"op\":", Quoted(node.op->name), ",\"device\":", DeviceName(DeviceOf(id)),
        ",\"reason\":", Quoted(ReasonName(choice.reason)), ",\"why\":", Quoted(Why(id, alternatives)));
    if (choice.with) out += StrCat(",\"with\":", Quoted(request_.graph->node(choice.with).name));
    if (const auto span = spans_.find(id); span != spans_.end())
      out += StrCat(",\"start\":", Text(span->second->start), ",\"finish\":", Text(span->second->finish));
    out += ",\"alternatives\":[";
    for (const Alternative& other : alternatives)
      out += StrCat(&other == alternatives.data() ? "" : ",", "{\"device\":", DeviceName(other.device),
                    ",\"finish\":", Text(other.seconds), "}");
    return out + "]}";
  }

  std::string Transfer(const TransferSpan& span) const {
    const std::string value =
        span.value.index < 0 ? "^" + request_.graph->node(span.value.node).name : request_.graph->EdgeName(span.value);
    return StrCat("{\"value\":", Quoted(value), ",\"from\":", DeviceName(span.from), ",\"to\":", DeviceName(span.to),
                  ",\"bytes\":", Text(span.bytes), ",\"start\":", Text(span.start), ",\"finish\":", Text(span.finish),
                  "}");
  }

  static std::string Cost(const std::string& op, const CostError& error) {
    return StrCat("{\"op\":", Quoted(op), ",\"nodes\":", error.nodes,
                  ",\"static_seconds\":", Text(error.static_seconds),
                  ",\"measured_seconds\":", Text(error.measured_seconds), ",\"ratio\":", Text(error.ratio), "}");
  }

  static std::string Refused(const Refusal& refusal) {
    return StrCat("{\"node\":", Quoted(refusal.node), ",\"plugin\":", Quoted(refusal.plugin),
                  ",\"reason\":", Quoted(refusal.reason), "}");
  }

  const Request& request_;
  const Placement& placement_;
  std::unordered_map<graph::NodeId, const NodeSpan*> spans_;
};

std::string XmlEscape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out.push_back(c);
  }
  return out;
}

// Pixels.
constexpr double kLeft = 20, kWidth = 1160, kTop = 60, kRow = 64, kBar = 28, kThinnest = 0.1;

class SvgWriter {
 public:
  SvgWriter(const Request& request, const Placement& placement)
      : request_(request), placement_(placement), scale_(placement.seconds > 0 ? kWidth / placement.seconds : 0) {}

  std::string Write() {
    std::string bars, lines;
    for (const NodeSpan& span : placement_.node_spans) bars += Bar(span);
    for (const TransferSpan& span : placement_.transfer_spans) lines += Line(span);
    const double height = kTop + kRow * static_cast<double>(request_.devices->size()) + 20;
    std::string out = StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", Round(kWidth + 2 * kLeft), "\" height=\"", Round(height),
        "\" font-family=\"sans-serif\" font-size=\"12\">\n<style>.t{stroke:#c33;stroke-width:1;opacity:.6}"
        ".g{stroke:#ddd}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    out += Label(kLeft, 20,
                 StrCat("predicted step: ", Duration(placement_.seconds), ", ", placement_.transfers, " transfers of ",
                        static_cast<int64_t>(placement_.transfer_bytes), " bytes",
                        left_out_ > 0 ? StrCat("; ", left_out_, " nodes are too short to be seen") : ""));
    return out + Axis(height) + Rows() + lines + bars + "</svg>\n";
  }

 private:
  double X(double seconds) const { return kLeft + seconds * scale_; }
  static double Y(DeviceId device) { return kTop + kRow * device.number() + 20; }
  static std::string Label(double x, double y, std::string_view text) {
    return StrCat("<text x=\"", Round(x), "\" y=\"", Round(y), "\">", XmlEscape(text), "</text>\n");
  }

  std::string Axis(double height) const {
    std::string out;
    constexpr int kTicks = 8;
    for (int i = 0; i <= kTicks; ++i) {
      const double at = placement_.seconds * i / kTicks;
      out += StrCat("<line class=\"g\" x1=\"", Round(X(at)), "\" x2=\"", Round(X(at)), "\" y1=\"44\" y2=\"",
                    Round(height - 10), "\"/>\n");
      if (i < kTicks) out += Label(X(at), 40, Duration(at));
    }
    return out;
  }
  std::string Rows() const {
    std::string out;
    for (DeviceId d : request_.devices->ids()) out += Label(kLeft, Y(d) - 5, (*request_.devices)[d].name);
    return out;
  }

  std::string Bar(const NodeSpan& span) {
    const double width = (span.finish - span.start) * scale_;
    if (width < kThinnest) {
      ++left_out_;
      return "";
    }
    const graph::Node& node = request_.graph->node(span.node);
    const size_t hue = std::hash<std::string>()(node.op->name) % 360;
    std::string out = StrCat("<g><rect x=\"", Round(X(span.start)), "\" y=\"", Round(Y(span.device)), "\" width=\"",
                             Round(width), "\" height=\"", Round(kBar), "\" fill=\"hsl(", hue,
                             ",60%,70%)\" stroke=\"#555\" stroke-width=\".3\"/><title>", XmlEscape(node.Describe()),
                             ": ", Duration(span.start), " + ", Duration(span.finish - span.start), "</title>");
    // What has room for its name shows it.
    if (width > 8 * static_cast<double>(node.name.size()))
      out += Label(X(span.start) + 3, Y(span.device) + 18, node.name);
    return out + "</g>\n";
  }

  std::string Line(const TransferSpan& span) const {
    const auto edge_of = [](DeviceId device, bool down) { return Y(device) + (down ? kBar : 0); };
    const bool down = span.from < span.to;
    return StrCat("<line class=\"t\" x1=\"", Round(X(span.start)), "\" y1=\"", Round(edge_of(span.from, down)),
                  "\" x2=\"", Round(X(span.finish)), "\" y2=\"", Round(edge_of(span.to, !down)), "\"><title>",
                  XmlEscape(request_.graph->node(span.value.node).name), ": ", static_cast<int64_t>(span.bytes),
                  " bytes, ", Duration(span.finish - span.start), "</title></line>\n");
  }

  const Request& request_;
  const Placement& placement_;
  double scale_;
  int64_t left_out_ = 0;
};

}  // namespace

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kOnlyDevice: return "only device";
    case Reason::kOnlyKernel: return "only kernel";
    case Reason::kDeviceName: return "device name";
    case Reason::kTogether: return "together";
    case Reason::kState: return "state";
    case Reason::kEarliestFinish: return "shortest step";
    case Reason::kPlacer: return "placer";
  }
  return "";
}

std::string ToJson(const Request& request, const Placement& placement, const std::map<std::string, CostError>& costs,
                   const std::vector<Refusal>& refusals) {
  return JsonWriter(request, placement).Write(costs, refusals);
}

std::string ToSvg(const Request& request, const Placement& placement) { return SvgWriter(request, placement).Write(); }

}  // namespace tenon::place
