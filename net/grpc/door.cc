// SPDX-License-Identifier: Apache-2.0
#include "door.h"

#include <algorithm>
#include <climits>

#include "caller.h"
#include "services.h"
#include "tenon/sdk/span.h"

namespace tenon::grpc_net {
namespace {

constexpr int kKeepaliveMs = 1000;  // at most, between questions whether the other side is there
constexpr uint64_t kSilenceMs = 3000;
constexpr int kHandshakeMs = 10'000;  // for a stranger to say who it is
constexpr int kMostStreams = 64;      // of a connection, which uses one
constexpr int kMaxMessage = static_cast<int>(kMessageBytes + (size_t{1} << 20));

// Of channels and servers alike: function(name, value).
template <class Function>
void ForEachArgument(uint64_t silence_ns, const Function& function) {
  const auto silence_ms =
      static_cast<int>(std::clamp<uint64_t>(silence_ns == 0 ? kSilenceMs : silence_ns / 1'000'000, 3, INT_MAX));
  const int question_ms = std::min(kKeepaliveMs, silence_ms / 3);
  function(GRPC_ARG_KEEPALIVE_TIME_MS, question_ms);
  function(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence_ms - question_ms);
  function(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  function(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  function(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 4);
  function(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  function(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMaxMessage);
  function(GRPC_ARG_ALLOW_REUSEPORT, 0);
  function(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  function(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
}

grpc::ChannelArguments ChannelArguments(const Security& security, uint64_t silence_ns) {
  grpc::ChannelArguments arguments;
  ForEachArgument(silence_ns, [&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1);  // each connection is its own, and starts without an earlier one's backoff
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // these keep what was sent
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!security.name.empty()) arguments.SetSslTargetNameOverride(security.name);
  return arguments;
}

// "ipv4:1.2.3.4:5" and the like, for people.
std::string Readable(const std::string& peer) {
  return peer.starts_with("ipv4:") || peer.starts_with("ipv6:") ? peer.substr(5) : peer;
}

}  // namespace

std::string GrpcDoor::PeerName(const grpc::AuthContext& proven, const std::string& otherwise) const {
  if (security_.mutual && proven.IsPeerAuthenticated()) {
    const std::vector<grpc::string_ref> names = proven.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (!names.empty()) return {names[0].data(), names[0].size()};
  }
  return otherwise;
}

// ---- Who comes in ----

// One that is awaited, and then shown in or sent away.
class GrpcDoor::Guest final {
 public:
  explicit Guest(GrpcDoor* door) : door_(door), stream_(std::make_unique<ServerStream>()) {
    door->service_.RequestCall(&stream_->context(), &stream_->stream(), door->server_queue_, door->server_queue_,
                               &come_);
  }

 private:
  void Come(bool ok) {
    if (!ok) return Leave();
    door_->AwaitGuest();
    service_ = ServiceOf(stream_->context().method());
    if (service_ != Service::kNone) return stream_->Read(&request_, &asked_);
    const grpc::Status refused = Check();
    if (!refused.ok()) return stream_->stream().Finish(refused, &leave_);
    stream_->context().AddInitialMetadata(kVersionKey, kVersion);
    stream_->stream().SendInitialMetadata(&enter_);
  }
  grpc::Status Check() const {
    const auto& context = stream_->context();
    if (context.method() != kPipeMethod)
      return {grpc::StatusCode::UNIMPLEMENTED, "there is " + std::string(kPipeMethod) + " alone"};
    const auto& metadata = context.client_metadata();
    const auto version = metadata.find(kVersionKey);
    if (version == metadata.end() || version->second != kVersion) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "this side speaks version 1 of Tenon's pipes"};
    }
    const auto token = metadata.find(kTokenKey);
    const std::string_view given =
        token == metadata.end() ? std::string_view() : std::string_view(token->second.data(), token->second.size());
    if (SameToken(given, door_->security_.token)) return grpc::Status::OK;
    return {grpc::StatusCode::UNAUTHENTICATED,
            given.empty() ? "a token is asked for" : "the token is not the listener's"};
  }
  void Enter(bool ok) {
    if (!ok || !door_->BeginAccept()) {
      stream_->Cancel();
      return stream_->stream().Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the listener stops"), &leave_);
    }
    const bool lends = !stream_->context().peer().starts_with("unix:");
    std::string name = door_->PeerName(*stream_->context().auth_context(), Readable(stream_->context().peer()));
    door_->accept_(std::make_unique<GrpcPipe>(std::move(stream_), door_->queue_.get(), std::move(name), lends));
    door_->EndAccept();
    Leave();
  }
  // Of a service that is not the pipe: one question after another.
  void Asked(bool ok) {
    if (!ok) return stream_->Finish(&leave_);
    grpc::Slice request;
    std::string response;
    grpc::Status status = request_.DumpToSingleSlice(&request);
    const std::string_view asked(reinterpret_cast<const char*>(request.begin()), request.size());
    if (status.ok() && service_ == Service::kHealth) status = CheckHealth(asked, !door_->IsShut(), &response);
    if (status.ok() && service_ == Service::kReflection) status = Reflect(asked, &response);
    if (!status.ok()) return stream_->stream().Finish(status, &leave_);
    const grpc::Slice slice(response);
    const grpc::ByteBuffer answer(&slice, 1);
    if (service_ == Service::kHealth) return stream_->stream().WriteAndFinish(answer, {}, grpc::Status::OK, &leave_);
    stream_->Write(answer, &answered_);
  }
  void Answered(bool ok) {
    if (!ok) return stream_->Finish(&leave_);
    stream_->Read(&request_, &asked_);
  }
  void Left(bool) { Leave(); }
  void Leave() {
    GrpcDoor* door = door_;
    delete this;
    door->GuestGone();
  }

  GrpcDoor* door_;
  std::unique_ptr<ServerStream> stream_;
  MemberOperation<Guest, &Guest::Come> come_{this};
  MemberOperation<Guest, &Guest::Enter> enter_{this};
  Service service_ = Service::kNone;
  grpc::ByteBuffer request_;
  MemberOperation<Guest, &Guest::Asked> asked_{this};
  MemberOperation<Guest, &Guest::Answered> answered_{this};
  MemberOperation<Guest, &Guest::Left> leave_{this};
};

void GrpcDoor::AwaitGuest() {
  const std::lock_guard lock(mutex_);
  if (shut_) return;
  ++guests_;
  new Guest(this);
}

bool GrpcDoor::BeginAccept() {
  const std::lock_guard lock(mutex_);
  if (shut_) return false;
  ++accepting_;
  return true;
}

void GrpcDoor::EndAccept() {
  const std::lock_guard lock(mutex_);
  --accepting_;
  changed_.notify_all();
}

bool GrpcDoor::IsShut() {
  const std::lock_guard lock(mutex_);
  return shut_;
}

void GrpcDoor::GuestGone() {
  const std::lock_guard lock(mutex_);
  --guests_;
  changed_.notify_all();
}

// ---- Listening ----

tenon_status* GrpcDoor::Listen(std::string_view text, Accept accept, std::string* out_address) {
  Address address;
  TENON_SDK_RETURN_IF_ERROR(ParseAddress(text, &address));
  TENON_SDK_RETURN_IF_ERROR(CheckListener(security_, address));
  accept_ = std::move(accept);
  TENON_SDK_RETURN_IF_ERROR(StartServer(address, out_address));
  StartThreads();
  AwaitGuest();
  return nullptr;
}

tenon_status* GrpcDoor::StartServer(const Address& address, std::string* out_address) {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  TENON_SDK_RETURN_IF_ERROR(ListenerCredentials(security_, &credentials));
  grpc::ServerBuilder builder;
  ForEachArgument(silence_ns_, [&](const char* name, int value) { builder.AddChannelArgument(name, value); });
  int port = 0;
  builder.AddListeningPort(address.here.empty() ? address.target : address.here, std::move(credentials), &port);
  builder.RegisterAsyncGenericService(&service_);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  server_queue_ = queue.get();
  server_ = builder.BuildAndStart();
  queue_ = std::move(queue);
  if (server_ == nullptr || port == 0) {
    return sdk::Failure(TENON_UNAVAILABLE, "cannot listen at ", address.text,
                        ": its port is in use, the host is not this one, or the certificate and key do not fit");
  }
  *out_address =
      address.is_unix() ? address.text : sdk::Concat(address.text.substr(0, address.text.rfind(':')), ":", port);
  return nullptr;
}

void GrpcDoor::StartThreads() {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) queue_ = std::make_unique<grpc::CompletionQueue>();
  if (threads_ == nullptr) threads_ = std::make_unique<QueueThreads>(queue_.get());
}

// ---- Going out ----

tenon_status* GrpcDoor::Connect(std::string_view text, uint64_t deadline_ns, std::unique_ptr<sdk::Pipe>* out_pipe) {
  Address address;
  TENON_SDK_RETURN_IF_ERROR(ParseAddress(text, &address));
  TENON_SDK_RETURN_IF_ERROR(CheckPlaintext(security_, address));
  StartThreads();
  Caller caller(grpc::CreateCustomChannel(security_.tls || address.here.empty() ? address.target : address.here,
                                          ConnectorCredentials(security_), ChannelArguments(security_, silence_ns_)),
                queue_.get(), security_.token);
  bool late = false;
  if (caller.Wait(deadline_ns, &late)) {
    std::unique_ptr<ClientStream> stream = caller.Take();
    std::string name = PeerName(*stream->context().auth_context(), address.text);
    auto pipe = std::make_unique<GrpcPipe>(std::move(stream), queue_.get(), std::move(name), !address.is_unix());
    if (late) {
      pipe->Close();
    } else {
      *out_pipe = std::move(pipe);
      return nullptr;
    }
  }
  if (late) return sdk::Failure(TENON_DEADLINE_EXCEEDED, "nobody answered until the deadline");
  const grpc::Status& status = caller.stream().status();
  const grpc::StatusCode code = status.error_code();
  const bool refused = code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::FAILED_PRECONDITION;
  const bool stranger = code == grpc::StatusCode::OK || code == grpc::StatusCode::UNIMPLEMENTED;
  // What a listener with TLS does when something else than a greeting of TLS comes.
  const bool hung_up = !security_.tls && code == grpc::StatusCode::UNAVAILABLE &&
                       status.error_message().find("Socket closed") != std::string::npos;
  return sdk::Failure(refused ? static_cast<uint32_t>(code) : TENON_UNAVAILABLE,
                      stranger ? "who listens there is no endpoint of Tenon's: " : "", status.error_message(),
                      hung_up ? "; it may ask for TLS, and this side speaks without: give credentials with its "
                                "authority (--credentials FILE)"
                              : "");
}

// ---- The end ----

// What is open stays: a server's own shutdown would end it.
void GrpcDoor::StopListening() {
  std::unique_lock lock(mutex_);
  shut_ = true;
  changed_.wait(lock, [this] { return accepting_ == 0; });
}

GrpcDoor::~GrpcDoor() {
  if (queue_ == nullptr) return;
  StopListening();
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return guests_ == 0; });
  }
  queue_->Shutdown();
  if (threads_ == nullptr) threads_ = std::make_unique<QueueThreads>(queue_.get());  // a queue must be emptied
  threads_.reset();
}

}  // namespace tenon::grpc_net
