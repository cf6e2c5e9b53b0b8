#include "collectives/connected_world.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/hierarchical/hierarchical.h"
#include "collectives/host_identity.h"
#include "collectives/net/socket.h"
#include "collectives/testing/disturbed.h"
#include "core/posix/available_memory.h"
#include "core/status/status_macros.h"
#include "core/tensor/rank_placement.h"

namespace tessera::comm {
namespace {

constexpr char kShm[] = "shm";
constexpr char kTcp[] = "tcp";
constexpr char kHierarchical[] = "hierarchical";
constexpr char kNccl[] = "nccl";

// Returns the backend for buffers in CPU memory.
absl::StatusOr<std::string> ChooseBackend(const std::string& wanted,
                                          const RankPlacement& placement) {
  const bool one_host = placement.host_count() == 1;
  if (wanted.empty() || wanted == kNccl) {
    if (one_host) return kShm;
    return placement.host_count() == placement.size() ? kTcp : kHierarchical;
  }
  if (wanted != kShm && wanted != kTcp && wanted != kHierarchical) {
    return absl::InvalidArgumentError(absl::StrCat("there is no backend '", wanted,
                                                   "': backends are ", kShm, ", ", kTcp, ", ",
                                                   kHierarchical, " and ", kNccl));
  }
  if (wanted == kShm && !one_host) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks are on several hosts, and the backend ", kShm, " is for one host"));
  }
  if (wanted == kHierarchical && one_host) {
    return absl::InvalidArgumentError(absl::StrCat("all ranks are on one host, and the backend ",
                                                   kHierarchical, " is for several: try ", kShm));
  }
  return wanted;
}

}  // namespace

Exchange ConnectedWorld::ExchangeAmong(std::string name, std::vector<int> ranks) const {
  return [this, name = std::move(name), ranks = std::move(ranks)](
             absl::string_view key,
             absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    if (rendezvous_ == nullptr) return std::vector<std::string>{std::string(mine)};
    return rendezvous_->Exchange(absl::StrCat("exchange/", name, "/", key), mine, ranks, timeout_,
                                 absl::StrCat(" did not come within ", FormatTimeout(timeout_),
                                              "; waiting to connect (", name, ", ", key, ")"));
  };
}

absl::StatusOr<std::vector<int>> ConnectedWorld::FindHosts(const WorldOptions& options) const {
  std::vector<std::string> names = options.hosts;
  if (names.empty()) {
    std::vector<int> all(size());
    std::iota(all.begin(), all.end(), 0);
    ASSIGN_OR_RETURN(names, ExchangeAmong("hosts", all)("identity", HostIdentity()));
  }
  if (static_cast<int>(names.size()) != size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", size(), " ranks, and the hosts of ", names.size(), " were named"));
  }
  std::map<std::string, int> numbers;
  std::vector<int> host_of;
  for (const std::string& name : names) {
    host_of.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return host_of;
}

absl::StatusOr<std::unique_ptr<ConnectedWorld>> ConnectedWorld::Connect(
    const WorldOptions& options) {
  std::unique_ptr<ConnectedWorld> world(new ConnectedWorld);
  ASSIGN_OR_RETURN(world->environment_, ReadRankEnvironment(options.rendezvous));
  world->timeout_ = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1e3));
  if (world->size() > 1) {
    ASSIGN_OR_RETURN(world->rendezvous_,
                     Rendezvous::Join(world->environment_, world->timeout_, options.interface));
  }
  const absl::Status status = world->MakeCommunicators(options);
  if (status.ok()) return world;
  world->Leave(status).IgnoreError();
  return status;
}

absl::Status ConnectedWorld::MakeCommunicators(const WorldOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int> host_of, FindHosts(options));
  const RankPlacement placement = PlaceRanks(host_of);
  ASSIGN_OR_RETURN(const std::string cpu_backend, ChooseBackend(options.backend, placement));
  backend_ = options.backend == kNccl ? kNccl : cpu_backend;
  const std::vector<int>& host_ranks = placement.hosts[placement.places[rank()].host];
  std::unique_ptr<Communicator> local, all;
  if (cpu_backend != kTcp) {
    shm::BackendOptions shm_options;
    shm_options.timeout_seconds = options.timeout_seconds;
    if (cpu_backend == kHierarchical) shm_options.memory.job_ranks = host_ranks;
    ASSIGN_OR_RETURN(
        shm_, shm::Backend::Create(
                  placement.places[rank()].local, static_cast<int>(host_ranks.size()),
                  ExchangeAmong(absl::StrCat("host/", host_ranks[0]), host_ranks), shm_options));
    ASSIGN_OR_RETURN(local, shm_->World(hierarchical::LocalName("world", host_of)));
    if (cpu_backend == kHierarchical) {
      ASSIGN_OR_RETURN(host_ranks_, local->Split("memory", std::vector<int>(host_ranks.size(), 0)));
    }
  }
  if (cpu_backend != kShm) {
    std::vector<int> ranks(size());
    std::iota(ranks.begin(), ranks.end(), 0);
    ASSIGN_OR_RETURN(network_, tcp::Network::Create(
                                   rank(), size(), ExchangeAmong("network", ranks),
                                   {.timeout_seconds = options.timeout_seconds,
                                    .interface = options.interface,
                                    .secret = rendezvous_ == nullptr ? "" : rendezvous_->secret(),
                                    .integrity = options.integrity}));
    ASSIGN_OR_RETURN(all, network_->World());
  }
  if (cpu_backend == kHierarchical) {
    ASSIGN_OR_RETURN(cpu_world_,
                     hierarchical::MakeGroup("world", host_of, std::move(local), std::move(all),
                                             hierarchical::GracePeriodOf(options.timeout_seconds)));
  } else {
    cpu_world_ = std::move(cpu_backend == kShm ? local : all);
  }
  if (backend_ == kNccl) {
    ASSIGN_OR_RETURN(device_, nccl::Device::Create(cpu_world_.get(),
                                                   {.gpu = environment_.local_rank,
                                                    .timeout_seconds = options.timeout_seconds}));
    ASSIGN_OR_RETURN(device_world_, device_->World());
  }
  if (!options.fault.empty()) {
    ASSIGN_OR_RETURN(const RankFault fault, ParseFault(options.fault, size()));
    std::unique_ptr<Communicator>& world = device_world_ != nullptr ? device_world_ : cpu_world_;
    if (fault.rank == rank()) world = WithFault(std::move(world), fault.fault);
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> ConnectedWorld::Allocate(int64_t bytes) {
  absl::StatusOr<char*> data =
      device_ != nullptr ? device_->Allocate(bytes)
      : shm_ != nullptr ? shm_->Allocate(host_ranks_ != nullptr ? *host_ranks_ : *cpu_world_, bytes)
                        : AllocatePrivate(bytes);
  if (shm_ != nullptr && device_ == nullptr && host_ranks_ == nullptr) return data;
  // The allocation above reports errors to the ranks of the host at most, so all ranks exchange
  // theirs.
  std::string failure(data.status().message());
  const bool names_rank = shm_ != nullptr && device_ == nullptr;
  if (!data.ok() && !names_rank) failure = absl::StrCat("rank ", rank(), ": ", failure);
  ASSIGN_OR_RETURN(const std::vector<std::string> failures,
                   ExchangeOver(cpu_world_.get())("allocated", failure));
  for (const std::string& rank_failure : failures) {
    if (rank_failure.empty()) continue;
    if (data.ok()) RETURN_IF_ERROR(FreeOnHost(*data));
    return absl::ResourceExhaustedError(rank_failure);
  }
  return data;
}

absl::StatusOr<char*> ConnectedWorld::AllocatePrivate(int64_t bytes) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kPiece = 64 << 20;
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  const auto check = [bytes](size_t needed) -> absl::Status {
    const int64_t available = AvailableMemory();
    if (available <= 0 || needed <= static_cast<size_t>(available)) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("there are no ", bytes, " bytes of memory (", available, " are available)"));
  };
  RETURN_IF_ERROR(check(rounded));
  std::unique_ptr<char[], void (*)(void*)> data(
      static_cast<char*>(std::aligned_alloc(kAlignment, rounded)), std::free);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("there are no ", bytes, " bytes of memory"));
  }
  // The system grants memory that it may not have, and kills processes when they write it. So each
  // piece is written now, and the rest is compared with what the other ranks have left.
  for (size_t begin = 0; begin < rounded; begin += kPiece) {
    if (begin > 0) RETURN_IF_ERROR(check(rounded - begin));
    std::memset(&data[begin], 0, std::min(kPiece, rounded - begin));
  }
  return memory_.emplace_back(std::move(data)).get();
}

absl::Status ConnectedWorld::Free(char* data) {
  if (shm_ == nullptr || device_ != nullptr) {
    RETURN_IF_ERROR(cpu_world_->Wait(cpu_world_->Barrier()));
  }
  return FreeOnHost(data);
}

absl::Status ConnectedWorld::FreeOnHost(char* data) {
  if (device_ != nullptr) return device_->Free(data);
  if (shm_ != nullptr) return shm_->Free(host_ranks_ != nullptr ? *host_ranks_ : *cpu_world_, data);
  const auto found = std::find_if(memory_.begin(), memory_.end(),
                                  [&](const auto& buffer) { return buffer.get() == data; });
  if (found == memory_.end()) {
    return absl::InvalidArgumentError(
        "memory is freed that was not allocated, or was freed before");
  }
  memory_.erase(found);
  return absl::OkStatus();
}

absl::Status ConnectedWorld::Copy(void* to, const void* from, int64_t bytes) {
  if (device_ != nullptr) return device_->Copy(to, from, bytes);
  std::memmove(to, from, bytes);
  return absl::OkStatus();
}

absl::Status ConnectedWorld::Leave(const absl::Status& why) {
  return rendezvous_ == nullptr ? absl::OkStatus() : rendezvous_->Leave(why);
}

}  // namespace tessera::comm
