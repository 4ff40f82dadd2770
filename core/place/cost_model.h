// SPDX-License-Identifier: Apache-2.0
// Cost model: seconds of a node on a device, from its op or from earlier runs.
//
// Static: the op's own cost function says flops and bytes (no function: the bytes of inputs and outputs); a device
// takes launch + max(flops / its flops, bytes / its bytes per second). Measured: CostModel keeps what runs took by
// node, op, device type and input shapes; that goes before the static cost. Not thread-safe for changes.
//
// The network: what values took from task to task, by the two tasks' names: the least time of small ones, and the bytes
// a second of large ones.
//
// The file is text, one measured node or link a line, fields parted by tabs; where there are links it begins with
// "tenon-costs 2":
//   tenon-costs 1
//   <seconds>  <runs>  <node>  <op>  <device type>  <shapes, as [2,?];[];?>
//   link  <values>  <from>  <to>  <seconds; ? not measured>  <bytes a second; ? not measured>
#ifndef TENON_CORE_PLACE_COST_MODEL_H_
#define TENON_CORE_PLACE_COST_MODEL_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/graph/shape_inference.h"
#include "core/place/request.h"

namespace tenon::place {

// Where shape inference does not know: a dim, the elements of a value of unknown rank, and the bytes of one string.
inline constexpr int64_t kGuessedDim = 32;
inline constexpr int64_t kGuessedElements = 1024;
inline constexpr double kGuessedStringBytes = 32;
// Of a device that does not say its speed.
inline constexpr double kGuessedFlops = 1e10;
inline constexpr double kGuessedBytesPerSecond = 1e10;

struct NodeCost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

// What the engine does itself, without a kernel: costs nothing, and may stand on any device.
bool RunsInEngine(const graph::Node& node);

// With guesses in the place of what is unknown; `guessed` becomes true when there were some.
Shape GuessShape(const Shape& shape, bool* guessed);
double BytesOf(DType type, const Shape& shape);
// The op's cost; INTERNAL annotated with the node when the op's cost function fails.
Result<NodeCost> StaticCost(const graph::Node& node, const graph::ShapeInference& shapes, bool* guessed);
double SecondsOn(const NodeCost& cost, const DeviceInfo& device);

// The shortest that reads back as the number.
std::string Text(double number);

class CostModel {
 public:
  struct Measured {
    std::vector<Shape> inputs;
    double seconds = 0;  // the mean
    int64_t runs = 0;
  };

  // Shapes may be unknown in part.
  void Record(std::string_view node, std::string_view op, std::string_view device_type, std::vector<Shape> inputs,
              double seconds);
  // The entry of these shapes; where some are unknown, the one with most runs whose shapes fit. nullptr: none.
  const Measured* Find(std::string_view node, std::string_view op, std::string_view device_type,
                       const std::vector<Shape>& inputs) const;
  size_t size() const;  // nodes

  // A value of so many bytes set out at one task and was at the other that long after.
  void RecordLink(std::string_view from, std::string_view to, double bytes, double seconds);
  // What was measured goes in the place of `guess`; the other way counts where nothing went this way.
  Link FindLink(std::string_view from, std::string_view to, const Link& guess) const;

  // `source` names the text in errors, which say the line.
  static Result<CostModel> Parse(std::string_view text, std::string_view source);
  std::string Write() const;
  static Result<CostModel> Load(const std::string& path);
  // Through a file beside it, so that a crash leaves the old one.
  Status Save(const std::string& path) const;

 private:
  struct Key {
    std::string node, op, device_type;
    auto operator<=>(const Key&) const = default;
  };
  struct MeasuredLink {
    double seconds = -1, bytes_per_second = -1;  // negative: not measured
    int64_t values = 0;
  };
  std::map<Key, std::vector<Measured>> entries_;
  std::map<std::pair<std::string, std::string>, MeasuredLink> links_;
};

// How far static costs are from measured ones: `ratio` is the geometric mean of the larger over the smaller, at
// least 1.
struct CostError {
  int64_t nodes = 0;  // that were measured
  double static_seconds = 0, measured_seconds = 0;
  double ratio = 1;
};
// By op, and "" for all; of nodes on the devices where `device_of_node` puts them.
Result<std::map<std::string, CostError>> CompareCosts(const Request& request,
                                                      const graph::NodeMap<DeviceId>& device_of_node,
                                                      const graph::ShapeInference& shapes, const CostModel& costs);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_COST_MODEL_H_
