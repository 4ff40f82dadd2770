// SPDX-License-Identifier: Apache-2.0
// The event files of train.h.
#include "sdk/app/model_c/objects.h"
#include "tenon/train.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

template <typename Function>
tenon_status* With(tenon_event_writer* writer, Function function) {
  return Guard([&]() -> Status {
    TENON_CHECK(writer);
    return function(writer->writer);
  });
}

}  // namespace

extern "C" {

tenon_status* tenon_event_writer_create(tenon_span folder, tenon_event_writer** out_writer) {
  return Guard([&]() -> Status {
    TENON_CHECK(folder, out_writer);
    if (folder.size == 0) return Status(Code::kInvalidArgument, "'folder' is empty");
    TENON_TRY_ASSIGN(train::EventWriter writer, train::EventWriter::Create(Copy(folder)));
    *out_writer = new tenon_event_writer{std::move(writer)};
    return Status();
  });
}

void tenon_event_writer_release(tenon_event_writer* writer) { delete writer; }

tenon_span tenon_event_writer_path(const tenon_event_writer* writer) {
  return writer == nullptr ? tenon_span{"", 0} : Span(writer->writer.path());
}

tenon_status* tenon_event_writer_add_graph(tenon_event_writer* writer, tenon_span graph_def) {
  return With(writer, [&](train::EventWriter& events) -> Status {
    TENON_CHECK(graph_def);
    return events.AddGraph(Text(graph_def));
  });
}

tenon_status* tenon_event_writer_add_scalars(tenon_event_writer* writer, int64_t step, const tenon_span* tags,
                                             const float* values, uint64_t count) {
  return With(writer, [&](train::EventWriter& events) -> Status {
    TENON_CHECK(List(tags, count));
    TENON_CHECK(List(values, count));
    std::vector<std::pair<std::string, float>> scalars;
    for (uint64_t i = 0; i < count; ++i) scalars.emplace_back(Copy(tags[i]), values[i]);
    return events.AddScalars(step, scalars);
  });
}

tenon_status* tenon_event_writer_add_summary(tenon_event_writer* writer, int64_t step, tenon_span summary) {
  return With(writer, [&](train::EventWriter& events) -> Status {
    TENON_CHECK(summary);
    return events.AddSummary(step, Text(summary));
  });
}

tenon_status* tenon_event_writer_add_start(tenon_event_writer* writer, int64_t step) {
  return With(writer, [&](train::EventWriter& events) { return events.AddStart(step); });
}

tenon_status* tenon_event_writer_flush(tenon_event_writer* writer) {
  return With(writer, [](train::EventWriter& events) { return events.Flush(); });
}

}  // extern "C"
