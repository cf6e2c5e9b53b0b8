#include "core/cost/simulate_step.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/program/collective_waits.h"
#include "core/status/check.h"

namespace tessera {
namespace {

constexpr double kLeastRate = 0.05;  // of computation beside collectives

// Returns the number of each collective's group: requests along the same axes have the same one.
Table<CollectiveId, size_t> GroupsOf(const Program& program, size_t* groups) {
  std::map<std::vector<std::string>, size_t> numbers;
  Table<CollectiveId, size_t> group_of;
  for (const CollectiveRequest& request : program.collectives) {
    std::vector<std::string> axes = request.mesh_axes;
    std::sort(axes.begin(), axes.end());
    group_of.push_back(numbers.try_emplace(std::move(axes), numbers.size()).first->second);
  }
  *groups = numbers.size();
  return group_of;
}

class Simulation {
 public:
  Simulation(const Program& program, const Table<InstructionId, Work>& works, IssueOrder order)
      : program_(program),
        works_(works),
        order_(order),
        times_(works.size()),
        ended_(works.size(), false) {
    size_t groups = 0;
    group_of_ = GroupsOf(program, &groups);
    groups_.resize(groups);
    if (order == IssueOrder::kThread) {
      waits_ = WaitsForCollectives(program);
      lanes_.resize(1);
    } else {
      lanes_.resize(program.streams.size());
    }
    for (const InstructionId i : program.instructions.ids()) {
      LaneOf(i).instructions.push_back(i);
    }
  }

  Table<InstructionId, TimeSpan> Run() {
    for (;;) {
      while (StartWhatIsReady()) {
      }
      if (!AdvanceToNextEnd()) break;
    }
    for (const Lane& lane : lanes_) {
      TESSERA_CHECK(lane.next == lane.instructions.size())
          << program_.instructions[lane.instructions[lane.next]].path << " waits for ever";
    }
    return std::move(times_);
  }

 private:
  // An instruction that runs, and the seconds that it would still take if nothing else did.
  struct Running {
    InstructionId id;
    double left = 0;
  };
  // Instructions that are issued in order: those of the thread, or of a stream.
  struct Lane {
    std::vector<InstructionId> instructions;
    size_t next = 0;
    Running computing;        // kNone: it does not compute
    InstructionId waits_for;  // a collective that must end before the next one begins, or kNone
  };

  Lane& LaneOf(InstructionId i) {
    if (order_ == IssueOrder::kThread) return lanes_[0];
    return lanes_[static_cast<size_t>(program_.instructions[i].stream.index())];
  }

  // Returns what must have ended before an instruction begins, besides those before it in its lane.
  absl::Span<const InstructionId> WaitsOf(InstructionId i) const {
    if (order_ == IssueOrder::kThread) return waits_.before[i];
    return program_.instructions[i].waits;
  }

  // Returns whether anything was started.
  bool StartWhatIsReady() {
    bool any = false;
    for (Lane& lane : lanes_) {
      while (lane.next < lane.instructions.size() && IsReady(lane)) {
        Start(lane.instructions[lane.next++], lane);
        any = true;
      }
    }
    return any;
  }

  bool IsReady(const Lane& lane) const {
    if (lane.computing.id != kNone) return false;
    if (lane.waits_for != kNone && !ended_[lane.waits_for]) return false;
    const absl::Span<const InstructionId> waits = WaitsOf(lane.instructions[lane.next]);
    return std::all_of(waits.begin(), waits.end(), [this](InstructionId id) { return ended_[id]; });
  }

  void Start(InstructionId i, Lane& lane) {
    times_[i].begin = now_;
    const Instruction& instruction = program_.instructions[i];
    if (!program_.Communicates(instruction)) {
      lane.computing = {i, works_[i].seconds};
      return;
    }
    if (order_ == IssueOrder::kStreams) lane.waits_for = i;
    groups_[group_of_[instruction.collective]].push_back({i, works_[i].seconds});
  }

  // How many collectives run over each link.
  struct LinkUsers {
    int within_hosts = 0, between_hosts = 0;

    double Share(const Work& work) const {
      return 1.0 / (work.between_hosts ? between_hosts : within_hosts);
    }
  };

  LinkUsers UsersOfLinks() const {
    LinkUsers users;
    for (const std::deque<Running>& group : groups_) {
      if (group.empty()) continue;
      ++(works_[group.front().id].between_hosts ? users.between_hosts : users.within_hosts);
    }
    return users;
  }

  // Returns the rate of computation beside the collectives that run.
  double ComputationRate(const LinkUsers& links) const {
    double rate = 1;
    for (const std::deque<Running>& group : groups_) {
      if (group.empty()) continue;
      const Work& work = works_[group.front().id];
      const double beside = std::max(work.beside_seconds, work.seconds);
      if (beside > 0) rate -= links.Share(work) * work.taken_seconds / beside;
    }
    return std::max(rate, kLeastRate);
  }

  double CollectiveRate(const Running& running, bool computes, const LinkUsers& links) const {
    const Work& work = works_[running.id];
    const bool is_slower = computes && work.beside_seconds > work.seconds;
    return links.Share(work) * (is_slower ? work.seconds / work.beside_seconds : 1);
  }

  // Advances the clock until the first of what runs has ended. Returns false if nothing runs.
  bool AdvanceToNextEnd() {
    const bool computes = std::any_of(lanes_.begin(), lanes_.end(),
                                      [](const Lane& lane) { return lane.computing.id != kNone; });
    const LinkUsers links = UsersOfLinks();
    const double computation_rate = computes ? ComputationRate(links) : 1;
    double step = std::numeric_limits<double>::infinity();
    for (const Lane& lane : lanes_) {
      if (lane.computing.id != kNone) step = std::min(step, lane.computing.left / computation_rate);
    }
    for (const std::deque<Running>& group : groups_) {
      if (group.empty()) continue;
      step = std::min(step, group.front().left / CollectiveRate(group.front(), computes, links));
    }
    if (step == std::numeric_limits<double>::infinity()) return false;
    now_ += step;
    for (Lane& lane : lanes_) {
      if (lane.computing.id != kNone && Advance(lane.computing, step, computation_rate)) {
        lane.computing.id = kNone;
      }
    }
    for (std::deque<Running>& group : groups_) {
      if (group.empty()) continue;
      Running& running = group.front();
      if (!Advance(running, step, CollectiveRate(running, computes, links))) continue;
      group.pop_front();
      if (!group.empty()) times_[group.front().id].begin = now_;
    }
    return true;
  }

  // Returns whether it has ended.
  bool Advance(Running& running, double step, double rate) {
    // Rounding must not leave a rest.
    constexpr double kExact = 1 + 1e-12;
    const bool ends = running.left <= step * rate * kExact;
    running.left -= step * rate;
    if (!ends) return false;
    times_[running.id].end = now_;
    ended_[running.id] = true;
    return true;
  }

  const Program& program_;
  const Table<InstructionId, Work>& works_;
  const IssueOrder order_;
  CollectiveWaits waits_;  // of kThread
  Table<CollectiveId, size_t> group_of_;
  std::vector<std::deque<Running>> groups_;  // the first of each runs
  std::vector<Lane> lanes_;
  double now_ = 0;
  Table<InstructionId, TimeSpan> times_;
  Table<InstructionId, bool> ended_;
};

}  // namespace

Table<InstructionId, TimeSpan> SimulateStep(const Program& program,
                                            const Table<InstructionId, Work>& works,
                                            IssueOrder order) {
  TESSERA_CHECK(works.size() == program.instructions.size());
  return Simulation(program, works, order).Run();
}

}  // namespace tessera
