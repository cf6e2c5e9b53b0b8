#include "core/runtime/mesh_collectives.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<MeshCollectives>> MeshCollectives::Create(
    Mesh mesh, comm::Communicator* communicator) {
  if (mesh.size() != communicator->size()) {
    return absl::InvalidArgumentError(absl::StrCat("the mesh {", mesh.ToString(), "} has ",
                                                   mesh.size(), " ranks, the job ",
                                                   communicator->size()));
  }
  return absl::WrapUnique(new MeshCollectives(std::move(mesh), communicator));
}

absl::StatusOr<int> MeshCollectives::FindOrCreateGroup(const std::vector<std::string>& mesh_axes) {
  std::vector<int> axes;
  for (const std::string& name : mesh_axes) {
    ASSIGN_OR_RETURN(axes.emplace_back(), mesh_.FindAxis(name));
  }
  std::sort(axes.begin(), axes.end());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].axes == axes) return static_cast<int>(g);
  }
  std::vector<int> colors(mesh_.size());
  const std::vector<std::vector<int>> groups = mesh_.GroupsAlong(axes);
  for (size_t color = 0; color < groups.size(); ++color) {
    for (const int rank : groups[color]) colors[rank] = static_cast<int>(color);
  }
  const std::string name = absl::StrCat(absl::StrJoin(mesh_axes, "+"), " ", colors[all_.rank()]);
  ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> communicator, all_.Split(name, colors));
  groups_.push_back({std::move(axes), std::move(communicator)});
  return static_cast<int>(groups_.size()) - 1;
}

StartedCollective MeshCollectives::Start(const CollectiveRequest& request, int group,
                                         const void* input, void* output,
                                         const FlatGroup::Range& unread) {
  comm::Communicator& communicator = *groups_[group].communicator;
  const int size = communicator.size();
  comm::Request issued;
  issued.operation = request.operation;
  issued.dtype = request.dtype;
  issued.reduction = request.reduction;
  issued.input = input;
  issued.output = output;
  issued.count = request.elements;
  issued.part = request.elements / size;
  issued.unread = {unread.begin, unread.size()};
  if (request.operation == CollectiveOperation::kSend) {
    issued.peer = (communicator.rank() + request.shift) % size;
  } else if (request.operation == CollectiveOperation::kReceive) {
    issued.peer = (communicator.rank() + size - request.shift) % size;
  }
  const comm::Ticket ticket = communicator.Issue(issued);
  return {group, ticket.channel, ticket.number};
}

comm::Traffic MeshCollectives::traffic() const {
  comm::Traffic sum;
  for (const Group& group : groups_) {
    const comm::Traffic counted = group.communicator->traffic();
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i].calls += counted[i].calls;
      sum[i].bytes_sent += counted[i].bytes_sent;
      sum[i].bytes_staged += counted[i].bytes_staged;
    }
  }
  return sum;
}

std::vector<CollectiveCount> MeshCollectives::Counts() const {
  std::vector<CollectiveCount> counts;
  for (const Group& group : groups_) {
    std::vector<std::string> axes;
    for (const int axis : group.axes) axes.push_back(mesh_.axis(axis).name);
    const comm::Traffic counted = group.communicator->traffic();
    for (size_t i = 0; i < counted.size(); ++i) {
      if (counted[i].calls == 0) continue;
      counts.push_back(
          {static_cast<CollectiveOperation>(i), axes, counted[i].calls, counted[i].bytes_sent});
    }
  }
  return counts;
}

absl::Status MeshCollectives::Wait(const StartedCollective& started) {
  return groups_[started.group].communicator->Wait({started.channel, started.number});
}

bool MeshCollectives::HasEnded(const StartedCollective& started) const {
  return groups_[started.group].communicator->HasEnded({started.channel, started.number});
}

void MeshCollectives::Abort(const absl::Status& why) {
  for (const Group& group : groups_) group.communicator->Abort(why);
}

}  // namespace tessera
