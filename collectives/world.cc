#include "collectives/world.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tensor/check.h"

namespace tessera {
namespace {

constexpr char kShm[] = "shm";
constexpr char kTcp[] = "tcp";

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// By way of the store; of a single rank without one.
Exchange ExchangeOver(StoreClient* store, int rank, int size, std::chrono::milliseconds timeout) {
  return [=](absl::string_view key,
             absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    if (store == nullptr) return std::vector<std::string>{std::string(mine)};
    const auto key_of = [key](int r) { return absl::StrCat("exchange/", key, "/", r); };
    RETURN_IF_ERROR(store->Set(key_of(rank), mine));
    std::vector<std::string> keys;
    for (int r = 0; r < size; ++r) keys.push_back(key_of(r));
    return store->WaitAll(keys, timeout);
  };
}

absl::StatusOr<std::string> ChooseBackend(const WorldOptions& options,
                                          const RankEnvironment& environment) {
  const std::string& wanted = options.backend;
  if (!wanted.empty() && wanted != kShm && wanted != kTcp) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no backend '", wanted, "': backends are ", kShm, " and ", kTcp));
  }
  if (wanted == kShm && !environment.one_host) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks are on several hosts, and the backend ", kShm, " is for one host"));
  }
  if (!wanted.empty()) return wanted;
  return environment.one_host ? kShm : kTcp;
}

}  // namespace

absl::StatusOr<std::unique_ptr<World>> World::Connect(const WorldOptions& options) {
  std::unique_ptr<World> world(new World);
  ASSIGN_OR_RETURN(world->environment_, ReadRankEnvironment(options.rendezvous));
  const RankEnvironment& environment = world->environment_;
  ASSIGN_OR_RETURN(world->backend_, ChooseBackend(options, environment));
  const auto timeout = Milliseconds(options.timeout_seconds);
  StoreClient* store = nullptr;
  if (environment.size > 1) {
    ASSIGN_OR_RETURN(world->rendezvous_, Rendezvous::Join(environment, timeout));
    store = &world->rendezvous_->store();
  }
  const Exchange exchange = ExchangeOver(store, environment.rank, environment.size, timeout);
  if (world->backend_ == kShm) {
    ASSIGN_OR_RETURN(world->host_, shm::Host::Create(environment.rank, environment.size, exchange,
                                                     {.timeout_seconds = options.timeout_seconds}));
    ASSIGN_OR_RETURN(world->communicator_, world->host_->World());
  } else {
    ASSIGN_OR_RETURN(world->network_,
                     tcp::Network::Create(environment.rank, environment.size, exchange,
                                          {.timeout_seconds = options.timeout_seconds,
                                           .interface = options.interface}));
    ASSIGN_OR_RETURN(world->communicator_, world->network_->World());
  }
  return world;
}

absl::StatusOr<char*> World::Allocate(int64_t bytes) {
  if (host_ != nullptr) return host_->Allocate(*communicator_, bytes);
  constexpr size_t kAlignment = 64;
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  char* const data = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("there are no ", bytes, " bytes of memory"));
  }
  memory_.emplace_back(data, std::free);
  std::memset(data, 0, rounded);
  return data;
}

absl::Status World::Leave(const absl::Status& why) {
  return rendezvous_ == nullptr ? absl::OkStatus() : rendezvous_->Leave(why);
}

}  // namespace tessera
