#include "collectives/world.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tensor/check.h"

namespace tessera {
namespace {

constexpr char kShm[] = "shm";

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
  if (!options.backend.empty() && options.backend != kShm) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no backend '", options.backend, "': backends are ", kShm));
  }
  if (!environment.one_host) {
    return absl::UnimplementedError(absl::StrCat("the ranks are on several hosts, and the backend ",
                                                 kShm, " is for one host only"));
  }
  return kShm;
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
  ASSIGN_OR_RETURN(world->host_, shm::Host::Create(environment.rank, environment.size,
                                                   ExchangeOver(store, environment.rank,
                                                                environment.size, timeout),
                                                   {.timeout_seconds = options.timeout_seconds}));
  ASSIGN_OR_RETURN(world->communicator_, world->host_->World());
  return world;
}

absl::StatusOr<char*> World::Allocate(int64_t bytes) {
  return host_->Allocate(*communicator_, bytes);
}

absl::Status World::Leave(const absl::Status& why) {
  return rendezvous_ == nullptr ? absl::OkStatus() : rendezvous_->Leave(why);
}

}  // namespace tessera
