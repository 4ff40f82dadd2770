// SPDX-License-Identifier: Apache-2.0
#include "core/place/cost_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "core/base/plugin_call.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"

namespace tenon::place {
namespace {

constexpr std::string_view kFirstLine = "tenon-costs 1", kFirstLineWithLinks = "tenon-costs 2", kLink = "link";
// What takes the time of a small value's way is not its bytes; of a large one's way nothing else.
constexpr double kSmallBytes = 4096, kLargeBytes = 256 * 1024;

// Facts of a node's inputs with guesses, and C shapes that borrow them.
struct KnownShapes {
  std::vector<Shape> shapes;
  std::vector<tenon_shape> c;

  void Add(const Shape& shape, bool* guessed) { shapes.push_back(GuessShape(shape, guessed)); }
  const tenon_shape* View() {
    for (const Shape& shape : shapes) c.push_back(shape.c());
    return c.data();
  }
};

std::string ShapesText(const std::vector<Shape>& shapes) {
  std::string out;
  for (size_t i = 0; i < shapes.size(); ++i) out += StrCat(i == 0 ? "" : ";", shapes[i].ToString());
  return out;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    out.push_back(text.substr(0, end));
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

template <typename Number>
bool ReadNumber(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadShape(std::string_view text, Shape* out) {
  *out = Shape::Unknown();
  if (text == "?") return true;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  *out = Shape();
  if (text.empty()) return true;
  for (std::string_view part : Split(text, ',')) {
    int64_t dim = 0;
    if (part == "?") dim = -1;
    else if (!ReadNumber(part, &dim) || dim < 0) return false;
    out->dims().push_back(dim);
  }
  return true;
}

bool ReadShapes(std::string_view text, std::vector<Shape>* out) {
  if (text.empty()) return true;
  for (std::string_view part : Split(text, ';')) {
    out->emplace_back();
    if (!ReadShape(part, &out->back())) return false;
  }
  return true;
}

bool Fit(const std::vector<Shape>& known, const std::vector<Shape>& wanted) {
  return std::equal(known.begin(), known.end(), wanted.begin(), wanted.end(),
                    [](const Shape& a, const Shape& b) { return a.CompatibleWith(b); });
}

void AddTo(CostError* error, double guessed, double measured) {
  error->nodes += 1;
  error->static_seconds += guessed;
  error->measured_seconds += measured;
  // A sum of logarithms until all are in.
  if (guessed > 0 && measured > 0) error->ratio += std::fabs(std::log(guessed / measured));
}

}  // namespace

std::string Text(double number) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), number).ptr);
}

bool RunsInEngine(const graph::Node& node) {
  return node.has(TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER | TENON_OP_CONSTANT | TENON_OP_SWITCH | TENON_OP_MERGE |
                  TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION |
                  TENON_OP_IDENTITY | TENON_OP_FEED | TENON_OP_ARGUMENT);
}

Shape GuessShape(const Shape& shape, bool* guessed) {
  if (shape.fully_known()) return shape;
  *guessed = true;
  if (!shape.known_rank()) return Shape{kGuessedElements};
  Shape out = shape;
  const auto unknown = std::count_if(out.dims().begin(), out.dims().end(), [](int64_t dim) { return dim < 0; });
  // All together no more than a value of unknown rank: six dims that nobody knows are no gigabytes.
  const double root = std::pow(static_cast<double>(kGuessedElements), 1.0 / static_cast<double>(unknown));
  const int64_t guess = std::clamp<int64_t>(static_cast<int64_t>(root + 1e-9), 1, kGuessedDim);
  for (int64_t& dim : out.dims())
    if (dim < 0) dim = guess;
  return out;
}

double BytesOf(DType type, const Shape& shape) {
  double elements = 1;
  for (int64_t dim : shape.dims()) elements *= static_cast<double>(dim);
  const DType base = BaseType(type);
  return elements * (BitsOf(base) / 8.0 + (base == TENON_DT_STRING ? kGuessedStringBytes : 0));
}

Result<NodeCost> StaticCost(const graph::Node& node, const graph::ShapeInference& shapes, bool* guessed) {
  KnownShapes inputs, outputs;
  for (const graph::Edge& edge : node.inputs) inputs.Add(shapes.facts(edge).shape, guessed);
  for (size_t i = 0; i < node.output_types.size(); ++i)
    outputs.Add(shapes.facts({node.id, static_cast<int32_t>(i)}).shape, guessed);
  if (node.op->c != nullptr && node.op->c->cost != nullptr) {
    tenon_cost cost{};
    cost.struct_size = sizeof(cost);
    const Status status = node.op->plugin->Call("cost", &node.name, &node.op->name, [&](tenon_plugin_self* self) {
      return node.op->c->cost(self, graph::NodeServices(), &node, inputs.View(), outputs.View(), &cost);
    });
    if (!status.ok()) return Internal(StrCat(node.Describe(), ": its cost function failed: ", status.ToString()));
    for (double* const number : {&cost.flops, &cost.bytes_read, &cost.bytes_written}) {
      if (!std::isfinite(*number))
        return Internal(StrCat(node.Describe(), ": ", DescribePlugin(node.op->package), ": its cost() gave ", *number,
                               "; flops and bytes are numbers from 0 on"));
      // Of dims that nobody knows, -1 each.
      if (*number < 0) *guessed = true;
      *number = std::max(*number, 0.0);
    }
    return NodeCost{cost.flops, cost.bytes_read, cost.bytes_written};
  }
  NodeCost cost;
  for (size_t i = 0; i < inputs.shapes.size(); ++i) cost.bytes_read += BytesOf(node.input_types[i], inputs.shapes[i]);
  for (size_t i = 0; i < outputs.shapes.size(); ++i)
    cost.bytes_written += BytesOf(node.output_types[i], outputs.shapes[i]);
  // Nothing of the inputs is read.
  if (node.has(TENON_OP_METADATA)) cost.bytes_read = 0;
  return cost;
}

double SecondsOn(const NodeCost& cost, const DeviceInfo& device) {
  const double flops = device.flops > 0 ? device.flops : kGuessedFlops;
  const double bytes = device.bytes_per_second > 0 ? device.bytes_per_second : kGuessedBytesPerSecond;
  return device.launch_seconds + std::max(cost.flops / flops, (cost.bytes_read + cost.bytes_written) / bytes);
}

void CostModel::Record(std::string_view node, std::string_view op, std::string_view device_type,
                       std::vector<Shape> inputs, double seconds) {
  std::vector<Measured>& list = entries_[{std::string(node), std::string(op), std::string(device_type)}];
  for (Measured& entry : list) {
    if (entry.inputs != inputs) continue;
    ++entry.runs;
    entry.seconds += (seconds - entry.seconds) / static_cast<double>(entry.runs);
    return;
  }
  list.push_back({std::move(inputs), seconds, 1});
}

const CostModel::Measured* CostModel::Find(std::string_view node, std::string_view op, std::string_view device_type,
                                           const std::vector<Shape>& inputs) const {
  if (entries_.empty()) return nullptr;
  const auto found = entries_.find({std::string(node), std::string(op), std::string(device_type)});
  if (found == entries_.end()) return nullptr;
  const Measured* best = nullptr;
  for (const Measured& entry : found->second) {
    if (entry.inputs == inputs) return &entry;
    if (Fit(entry.inputs, inputs) && (best == nullptr || entry.runs > best->runs)) best = &entry;
  }
  return best;
}

size_t CostModel::size() const {
  size_t count = 0;
  for (const auto& [key, list] : entries_) count += list.size();
  return count;
}

void CostModel::RecordLink(std::string_view from, std::string_view to, double bytes, double seconds) {
  if (!(seconds > 0) || (bytes > kSmallBytes && bytes < kLargeBytes)) return;
  MeasuredLink& link = links_[{std::string(from), std::string(to)}];
  ++link.values;
  if (bytes <= kSmallBytes) link.seconds = link.seconds < 0 ? seconds : std::min(link.seconds, seconds);
  else link.bytes_per_second = std::max(link.bytes_per_second, bytes / seconds);
}

Link CostModel::FindLink(std::string_view from, std::string_view to, const Link& guess) const {
  auto found = links_.find({std::string(from), std::string(to)});
  if (found == links_.end()) found = links_.find({std::string(to), std::string(from)});
  if (found == links_.end()) return guess;
  const MeasuredLink& link = found->second;
  return {link.seconds < 0 ? guess.latency_seconds : link.seconds,
          link.bytes_per_second < 0 ? guess.bytes_per_second : link.bytes_per_second};
}

Result<CostModel> CostModel::Parse(std::string_view text, std::string_view source) {
  CostModel model;
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines[0] != kFirstLine && lines[0] != kFirstLineWithLinks)
    return InvalidArgument(StrCat(source, ":1: not a file of measured costs: it must begin with '", kFirstLine, "'"));
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto bad = [&](std::string_view why) { return InvalidArgument(StrCat(source, ":", i + 1, ": ", why)); };
    const std::vector<std::string_view> fields = Split(lines[i], '\t');
    if (fields.size() != 6) return bad(StrCat("six fields parted by tabs are expected, found ", fields.size()));
    if (fields[0] == kLink && lines[0] == kFirstLineWithLinks) {
      MeasuredLink link;
      const auto read = [](std::string_view field, double* out) {
        return field == "?" || (ReadNumber(field, out) && *out >= 0 && !std::isinf(*out));
      };
      if (!ReadNumber(fields[1], &link.values) || link.values < 1)
        return bad(StrCat("'", fields[1], "' is no number of values"));
      if (!read(fields[4], &link.seconds)) return bad(StrCat("'", fields[4], "' is no number of seconds"));
      if (!read(fields[5], &link.bytes_per_second) || link.bytes_per_second == 0)
        return bad(StrCat("'", fields[5], "' is no number of bytes a second"));
      model.links_[{std::string(fields[2]), std::string(fields[3])}] = link;
      continue;
    }
    Measured entry;
    if (!ReadNumber(fields[0], &entry.seconds) || !(entry.seconds >= 0) || std::isinf(entry.seconds))
      return bad(StrCat("'", fields[0], "' is no number of seconds"));
    if (!ReadNumber(fields[1], &entry.runs) || entry.runs < 1)
      return bad(StrCat("'", fields[1], "' is no number of runs"));
    if (!ReadShapes(fields[5], &entry.inputs))
      return bad(StrCat("'", fields[5], "' is no list of shapes such as [2,3];[]"));
    model.entries_[{std::string(fields[2]), std::string(fields[3]), std::string(fields[4])}].push_back(
        std::move(entry));
  }
  return model;
}

std::string CostModel::Write() const {
  std::string out = StrCat(links_.empty() ? kFirstLine : kFirstLineWithLinks, "\n");
  const auto number = [](double value) { return value < 0 ? std::string("?") : Text(value); };
  for (const auto& [ends, link] : links_)
    out += StrCat(kLink, "\t", link.values, "\t", ends.first, "\t", ends.second, "\t", number(link.seconds), "\t",
                  number(link.bytes_per_second), "\n");
  for (const auto& [key, list] : entries_)
    for (const Measured& entry : list)
      out += StrCat(Text(entry.seconds), "\t", entry.runs, "\t", key.node, "\t", key.op, "\t", key.device_type, "\t",
                    ShapesText(entry.inputs), "\n");
  return out;
}

Result<CostModel> CostModel::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(StrCat("the file of measured costs '", path, "' cannot be read"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return Parse(text, path);
}

Status CostModel::Save(const std::string& path) const {
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::binary);
  file << Write();
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0)
    return Status(Code::kPermissionDenied, StrCat("the file of measured costs '", path, "' cannot be written"));
  return Status::Ok();
}

Result<std::map<std::string, CostError>> CompareCosts(const Request& request,
                                                      const graph::NodeMap<DeviceId>& device_of_node,
                                                      const graph::ShapeInference& shapes, const CostModel& costs) {
  std::map<std::string, CostError> out;
  out[""].ratio = 0;
  for (graph::NodeId id : request.order) {
    const graph::Node& node = request.graph->node(id);
    if (RunsInEngine(node)) continue;
    const DeviceInfo& device = (*request.devices)[device_of_node[id]];
    std::vector<Shape> inputs;
    for (const graph::Edge& edge : node.inputs) inputs.push_back(shapes.facts(edge).shape);
    const CostModel::Measured* measured = costs.Find(node.name, node.op->name, device.type, inputs);
    if (measured == nullptr) continue;
    bool guessed = false;
    TENON_ASSIGN_OR_RETURN(const NodeCost cost, StaticCost(node, shapes, &guessed));
    const auto [of_op, added] = out.try_emplace(node.op->name);
    if (added) of_op->second.ratio = 0;
    AddTo(&of_op->second, SecondsOn(cost, device), measured->seconds);
    AddTo(&out[""], SecondsOn(cost, device), measured->seconds);
  }
  for (auto& [op, error] : out)
    error.ratio = error.nodes == 0 ? 1 : std::exp(error.ratio / static_cast<double>(error.nodes));
  return out;
}

}  // namespace tenon::place
