#include "collectives/rendezvous/store_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/net/handshake.h"
#include "collectives/net/owners.h"
#include "collectives/rendezvous/key_value_store.h"
#include "collectives/rendezvous/limits.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// The longest time for an answer, in addition to the time that the request itself may wait.
constexpr std::chrono::seconds kAnswerTimeout{30};
// The same for reporting an error. It is short, because rank 0 may be what has failed.
constexpr std::chrono::milliseconds kErrorAnswerTimeout{300};
// The longest attempt to connect: a program that does not answer must not take all of the time,
// since rank 0 may listen there later.
constexpr std::chrono::seconds kAttemptTimeout{10};
constexpr std::chrono::milliseconds kFirstDelay{5};
constexpr std::chrono::milliseconds kLongestDelay{250};

// Errors that the next attempt would return again.
bool IsFinal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsAlreadyExists(status) || absl::IsFailedPrecondition(status);
}

// Adds who listens at `listener`, which may be no address, to an error of a program that did not
// prove that it knows the secret.
absl::Status WithListener(const absl::Status& status, const SocketAddress& listener) {
  if (listener.port() == 0 || absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status)) {
    return status;
  }
  const std::string owner = FormatListener(listener);
  if (owner.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " (", owner, ")"));
}

absl::Status StatusOf(const StoreResponse& response) {
  return absl::Status(static_cast<absl::StatusCode>(response.code()), response.error());
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreClient>> StoreClient::TryToConnect(
    const StoreClientOptions& options, Deadline deadline, SocketAddress* listener) {
  ASSIGN_OR_RETURN(const StoreAddress store, options.find_store(deadline));
  const std::string address = FormatAddress(store.host, store.port);
  ASSIGN_OR_RETURN(FileDescriptor socket, ConnectTo(store.host, store.port, deadline));
  *listener = PeerAddressOf(socket).value_or(SocketAddress());
  LimitUnacknowledged(socket);
  const absl::StatusOr<SessionKeys> keys =
      ProveIdentity(socket, {kRendezvousService, options.job, store.secret},
                    {options.rank, options.size}, address, deadline);
  if (!keys.ok()) {
    return absl::Status(keys.status().code(), absl::StrCat(address, ": ", keys.status().message()));
  }
  return std::unique_ptr<StoreClient>(
      new StoreClient(address, store.secret, std::move(socket), *keys));
}

absl::StatusOr<std::unique_ptr<StoreClient>> StoreClient::Connect(
    const StoreClientOptions& options, std::chrono::milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  std::chrono::milliseconds delay = kFirstDelay;
  absl::Status reason;
  SocketAddress listener;  // of the last attempt that was accepted
  while (true) {
    absl::StatusOr<std::unique_ptr<StoreClient>> client =
        TryToConnect(options, std::min(deadline, Clock::now() + kAttemptTimeout), &listener);
    if (client.ok()) return client;
    if (IsFinal(client.status())) return WithListener(client.status(), listener);
    // The deadline may have ended the last attempt before its answer.
    if (reason.ok() || !absl::IsDeadlineExceeded(client.status())) reason = client.status();
    if (Clock::now() + delay >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", options.rank, " of ", options.size, " did not reach rank 0 within ",
                       FormatTimeout(timeout), ": ", WithListener(reason, listener).message()));
    }
    std::this_thread::sleep_for(delay);
    delay = std::min(2 * delay, kLongestDelay);
  }
}

absl::Status StoreClient::Call(const StoreRequest& request, std::chrono::milliseconds timeout,
                               StoreResponse* response) {
  RETURN_IF_ERROR(broken_);
  connection_.Queue(request);
  const absl::Status status = connection_.WaitForAnswer(response, Clock::now() + timeout);
  if (absl::IsDeadlineExceeded(status)) {
    broken_ =
        absl::UnavailableError(absl::StrCat("rank 0's store at ", address_, " sends no answer"));
  } else if (absl::IsDataLoss(status)) {
    broken_ = absl::DataLossError(
        absl::StrCat("the answer of rank 0's store at ", address_, " was ", status.message()));
  } else if (!status.ok()) {
    broken_ = absl::UnavailableError(
        absl::StrCat("rank 0, or its store at ", address_, ", is gone: ", status.message()));
  }
  RETURN_IF_ERROR(broken_);
  return StatusOf(*response);
}

absl::Status StoreClient::Set(absl::string_view key, absl::string_view value) {
  RETURN_IF_ERROR(CheckValue(key, value));
  StoreRequest request;
  request.mutable_set()->set_key(std::string(key));
  request.mutable_set()->set_value(std::string(value));
  StoreResponse response;
  return Call(request, kAnswerTimeout, &response);
}

absl::StatusOr<std::string> StoreClient::Wait(absl::string_view key,
                                              std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(std::vector<std::string> values, WaitAll({std::string(key)}, timeout));
  return std::move(values.front());
}

absl::StatusOr<std::vector<std::string>> StoreClient::WaitAll(const std::vector<std::string>& keys,
                                                              std::chrono::milliseconds timeout,
                                                              std::vector<std::string>* missing) {
  StoreRequest request;
  for (const std::string& key : keys) request.mutable_wait()->add_keys(key);
  request.mutable_wait()->set_timeout_ms(timeout.count());
  StoreResponse response;
  const absl::Status status =
      Call(request, std::min(timeout, kMaxTimeout) + kAnswerTimeout, &response);
  if (missing != nullptr) missing->assign(response.missing().begin(), response.missing().end());
  if (absl::IsDeadlineExceeded(status) && timeout.count() > 0) {
    return absl::DeadlineExceededError(
        absl::StrCat(status.message(), " after ", FormatTimeout(timeout)));
  }
  RETURN_IF_ERROR(status);
  if (response.values_size() != static_cast<int>(keys.size())) {
    return absl::InternalError(absl::StrCat("rank 0's store sent ", response.values_size(),
                                            " values for ", keys.size(), " keys"));
  }
  return std::vector<std::string>(response.values().begin(), response.values().end());
}

absl::Status StoreClient::Leave(const absl::Status& why) {
  StoreRequest request;
  request.mutable_leave();
  if (!why.ok()) {
    request.mutable_leave()->set_error(why.message().empty() ? why.ToString()
                                                             : std::string(why.message()));
  }
  StoreResponse response;
  return Call(request, why.ok() ? kAnswerTimeout : kErrorAnswerTimeout, &response);
}

}  // namespace tessera::comm
