#include "tools/train/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/host_identity.h"
#include "collectives/rendezvous/environment.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"

namespace tessera {

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
  RETURN_IF_ERROR(job->JoinWorld(job->connected_.get()));
  return job;
}

absl::StatusOr<std::unique_ptr<Job>> Job::OfThreads(comm::World* world) {
  auto job = std::make_unique<Job>();
  RETURN_IF_ERROR(job->JoinWorld(world));
  return job;
}

absl::Status Job::JoinWorld(comm::World* world) {
  world_ = world;
  ASSIGN_OR_RETURN(ranks_, Ranks::Create(world));
  return FindHosts();
}

absl::Status Job::FindHosts() {
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ranks_->Gather(comm::HostIdentity()));
  ranks_of_host_ = static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[ranks_->rank()]));
  return absl::OkStatus();
}

std::string Job::Description() const {
  if (world_ == nullptr) return "";
  return absl::StrCat(Counted(world_->size(), "rank"), ", ", world_->backend());
}

std::string Job::LaunchFlag() const {
  if (world_ == nullptr) return "";
  if (connected_ == nullptr) {
    return absl::StrCat(" --nproc=", world_->size(), " --backend=", world_->backend());
  }
  if (connected_->environment().launcher != "tessera") return "";
  return absl::StrCat(" --nproc=", world_->size());
}

absl::Status Job::Leave(const absl::Status& why) {
  if (world_ == nullptr) return absl::OkStatus();
  if (!why.ok()) ranks_->Abort(why);
  return world_->Leave(why);
}

}  // namespace tessera
