// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.net.grpc: connections over gRPC.
#include <grpc/support/log.h>

#include "door.h"
#include "tenon/extras/transport/endpoint.h"

namespace {

// What gRPC has to say goes into the host's log, not to the standard error. Its errors are told as statuses too.
void Log(gpr_log_func_args* said) {
  const std::string text = tenon::sdk::Concat("grpc: ", static_cast<const char*>(said->message));
  tenon_plugin_host->log(said->severity == GPR_LOG_SEVERITY_ERROR ? TENON_LOG_INFO : TENON_LOG_DEBUG,
                         tenon::sdk::ToSpan(text));
}

struct Transport {
  static constexpr tenon_span kScheme = TENON_SPAN("grpc");
  static tenon_status* Open(tenon_plugin_self*, const tenon_endpoint_options& options,
                            std::unique_ptr<tenon::sdk::Door>* out_door) {
    gpr_set_log_function(Log);
    tenon::grpc_net::Security security;
    TENON_SDK_RETURN_IF_ERROR(ParseSecurity(tenon::sdk::ToText(options.credentials), &security));
    *out_door = std::make_unique<tenon::grpc_net::GrpcDoor>(std::move(security), options.silence_ns);
    return nullptr;
  }
};

const tenon_capability kCapabilities[] = {
    TENON_PROVIDES(TRANSPORT, &tenon::sdk::kTransportTable<Transport>)};

}  // namespace

TENON_PLUGIN("tenon.net.grpc", "0.1.0", "Connections over gRPC, with TLS, tokens and the health service.",
             kCapabilities)
