// SPDX-License-Identifier: Apache-2.0
// The loopback transport under the scheme "counted", with counters (counting_transport.h). TENON_TEST_WRAPPED is the
// loopback's file.
#include <atomic>
#include <string>
#include <string_view>

#include "counting_transport.h"
#include "plugin_capability.h"
#include "tenon/ext/draft/transport.h"
#include "tenon/plugin.h"

namespace {

std::atomic<uint64_t> sends{0}, bytes{0};

const tenon_plugin* Wrapped() {
  static const tenon_plugin* const plugin = tenon::fakes::PluginOf(TENON_TEST_WRAPPED, 0);
  return plugin;
}
const tenon_transport* Loopback() {
  return static_cast<const tenon_transport*>(tenon::fakes::CapabilityOf(Wrapped(), TENON_CAPABILITY_TRANSPORT));
}

// "counted://x" as the loopback knows it.
std::string Renamed(tenon_span address) {
  const std::string_view text(address.data, address.size);
  return text.starts_with("counted://") ? "loopback" + std::string(text.substr(7)) : std::string(text);
}
tenon_status* Open(tenon_plugin_self* self, const tenon_endpoint_options* options, const tenon_endpoint_events* events,
                   tenon_endpoint** out) {
  const std::string listen = Renamed(options->address);
  tenon_endpoint_options renamed = *options;
  renamed.address = {listen.data(), listen.size()};
  return Loopback()->open(self, &renamed, events, out);
}
tenon_status* Connect(tenon_endpoint* endpoint, tenon_span address, uint64_t deadline_ns, tenon_peer** out) {
  const std::string renamed = Renamed(address);
  return Loopback()->connect(endpoint, {renamed.data(), renamed.size()}, deadline_ns, out);
}
tenon_status* Send(tenon_peer* peer, const tenon_send_args* args) {
  ++sends;
  for (uint64_t i = 0; i < args->piece_count; ++i) bytes += args->pieces[i].size;
  return Loopback()->send(peer, args);
}

tenon_transport Counted() {
  tenon_transport table = {};
  if (Loopback() != nullptr) table = *Loopback();
  table.scheme = TENON_SPAN("counted");
  table.open = Open;
  table.connect = Connect;
  table.send = Send;
  return table;
}
const tenon_transport kTransport = Counted();
const tenon_test_counted kCounted = {[]() -> uint64_t { return sends; }, []() -> uint64_t { return bytes; }};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(TRANSPORT, &kTransport),
                                          {TENON_SPAN(TENON_TEST_COUNTED), &kCounted, 0}};

tenon_status* Load(const tenon_load_args* args, tenon_plugin_self** out_self) {
  return Wrapped()->load(args, out_self);
}
void Unload(tenon_plugin_self* self) { Wrapped()->unload(self); }

}  // namespace

TENON_PLUGIN_WITH("tenon.test.counted", "0.1.0", "The loopback transport with counters.", kCapabilities, nullptr, 0,
                  Load, Unload)
