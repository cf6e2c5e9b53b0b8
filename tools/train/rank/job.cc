#include "tools/train/rank/job.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/host_identity.h"
#include "collectives/net/proof.h"
#include "collectives/rendezvous/environment.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

// Returns the number of ranks that have the same text as this one.
int CountSame(const std::vector<std::string>& texts, int rank) {
  return static_cast<int>(std::count(texts.begin(), texts.end(), texts[rank]));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Job>> Job::Join(const comm::WorldOptions& options) {
  auto job = std::make_unique<Job>();
  ASSIGN_OR_RETURN(const comm::RankEnvironment environment,
                   comm::ReadRankEnvironment(options.rendezvous));
  if (environment.size == 1) {
    job->ranks_ = std::make_unique<Ranks>();
    return job;
  }
  ASSIGN_OR_RETURN(job->connected_, comm::ConnectedWorld::Connect(options));
  for (const std::string& note :
       {job->connected_->environment().note, job->connected_->communicator().note()}) {
    if (!note.empty()) job->notes_.push_back(note);
  }
  RETURN_IF_ERROR(job->JoinWorld(job->connected_.get(), options.hosts));
  return job;
}

absl::StatusOr<std::unique_ptr<Job>> Job::OfThreads(comm::World* world) {
  auto job = std::make_unique<Job>();
  RETURN_IF_ERROR(job->JoinWorld(world, {}));
  return job;
}

absl::Status Job::JoinWorld(comm::World* world, const std::vector<std::string>& hosts) {
  world_ = world;
  ASSIGN_OR_RETURN(ranks_, Ranks::Create(world));
  ASSIGN_OR_RETURN(report_name_, ranks_->BroadcastFromFirst([]() -> absl::StatusOr<std::string> {
    return absl::StrCat("tessera-report-", comm::RandomSecret());
  }));
  return FindHosts(hosts);
}

// Binds a socket to a name of the abstract namespace, which only one socket of the host can have,
// until its process ends.
bool Job::ClaimReport() {
  if (world_ == nullptr) return true;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  TESSERA_CHECK(report_name_.size() + 1 < sizeof(address.sun_path));
  std::memcpy(address.sun_path + 1, report_name_.data(), report_name_.size());
  const size_t bytes = offsetof(sockaddr_un, sun_path) + 1 + report_name_.size();
  report_ = FileDescriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return bind(report_.get(), reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(bytes)) == 0 ||
         errno != EADDRINUSE;
}

absl::Status Job::FindHosts(const std::vector<std::string>& hosts) {
  const std::string mine =
      absl::StrCat(comm::HostIdentity(), "\n", absl::StrJoin(AllowedCores(), ","));
  ASSIGN_OR_RETURN(hosts_, ranks_->AllGather(mine));
  cores_ = std::max(1, AvailableCores() / CountSame(hosts_, ranks_->rank()));
  for (std::string& host : hosts_) host.resize(host.rfind('\n'));
  ranks_of_host_ = CountSame(hosts_, ranks_->rank());
  if (hosts.empty()) return absl::OkStatus();
  std::map<std::string, std::string> names;  // by actual host
  for (size_t rank = 0; rank < std::min(hosts.size(), hosts_.size()); ++rank) {
    const auto [named, is_new] = names.emplace(hosts_[rank], hosts[rank]);
    emulates_hosts_ = emulates_hosts_ || (!is_new && named->second != hosts[rank]);
  }
  hosts_ = hosts;
  return absl::OkStatus();
}

const std::string& Job::backend() const {
  static const std::string* const kAlone = new std::string("shm");
  return world_ == nullptr ? *kAlone : world_->backend();
}

std::string Job::Description() const {
  if (world_ == nullptr) return "";
  return absl::StrCat(Counted(world_->size(), "rank"), ", ", world_->backend());
}

std::string Job::LaunchFlags() const {
  if (world_ == nullptr) return "";
  if (connected_ != nullptr && connected_->environment().launcher != "tessera") return "";
  const char* const flags = std::getenv(kLaunchFlagsVariable);
  return flags != nullptr ? flags : absl::StrCat(" --nproc=", world_->size());
}

absl::Status Job::Leave(const absl::Status& why) {
  if (world_ == nullptr) return absl::OkStatus();
  if (!why.ok()) ranks_->Abort(why);
  return world_->Leave(why);
}

}  // namespace tessera
