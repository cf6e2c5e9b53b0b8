#include "core/cost/step_cost.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/request_traffic.h"
#include "core/cost/simulate_step.h"
#include "core/ids/table.h"
#include "core/program/memory/memory_plan.h"
#include "core/tensor/collective.h"

namespace tessera {
namespace {

// The categories of an instruction's time, in the order in which they are listed.
constexpr std::array<const char*, 5> kTimes = {"forward", "backward", "update", "recomputation",
                                               "host copies"};

// Returns the index in kTimes of an instruction that does not communicate.
size_t TimeCategoryOf(const Program& program, const Instruction& instruction) {
  if (HostCopyTo(program, instruction).has_value()) return 4;
  return instruction.recomputed ? 3 : static_cast<size_t>(instruction.phase);
}

// Adds the calls and bytes of copies between the device and the host.
void AddHostCopies(const Program& program, StepCost* cost) {
  for (const bool to_host : {false, true}) {
    StepCost::HostCopies copies;
    copies.set_to_host(to_host);
    for (const Instruction& instruction : program.instructions) {
      const std::optional<MemorySpace> to = HostCopyTo(program, instruction);
      if (!to.has_value() || (*to == MemorySpace::kOffloadHost) != to_host) continue;
      copies.set_calls(copies.calls() + 1);
      copies.set_bytes(copies.bytes() + CopiedBytes(program, instruction));
    }
    if (copies.calls() > 0) *cost->add_host_copies() = copies;
  }
}

// A request that is made `times` times in a step.
struct RepeatedRequest {
  const CollectiveRequest* request = nullptr;
  int64_t times = 0;
};

// Returns the bytes that the rank of a group sends that sends the most in all of these requests,
// which are of one operation.
int64_t MostBytesSent(const std::vector<RepeatedRequest>& requests, const GroupTraffic& group) {
  const bool messages = IsMessage(*requests[0].request);
  std::vector<CollectiveCall> calls;
  if (!messages) {
    for (const RepeatedRequest& each : requests) {
      calls.push_back(CallOf(*each.request, group.ranks()));
    }
  }
  // A message's sender is the first rank, or all are.
  const std::vector<int> busiest = messages ? std::vector<int>{0} : group.BusiestRanks(calls);
  int64_t most = 0;
  for (const int rank : busiest) {
    int64_t sent = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const CollectiveTraffic traffic =
          messages ? MessageTraffic(*requests[i].request, group.site(), rank)
                   : group.Of(calls[i], rank);
      sent += requests[i].times * traffic.bytes_sent;
    }
    most = std::max(most, sent);
  }
  return most;
}

// Adds the entries of all collectives with their bytes.
void AddCollectives(const Program& program, const ClusterPrices& prices, StepCost* cost) {
  Table<CollectiveId, int64_t> calls(program.collectives.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    if (program.Communicates(instruction)) ++calls[instruction.collective];
  }
  std::vector<std::vector<RepeatedRequest>> entries;
  for (const CollectiveId i : calls.ids()) {
    if (calls[i] == 0) continue;
    const CollectiveRequest& request = program.collectives[i];
    const auto entry = static_cast<size_t>(
        FindOrAddCollective(CollectiveOperationName(request.operation), request.mesh_axes, cost));
    if (entry == entries.size()) entries.emplace_back();
    entries[entry].push_back({&request, calls[i]});
  }
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    const std::vector<int> axes = AxesOf(*entries[entry][0].request, program.mesh);
    int64_t most = 0;
    for (const GroupTraffic& group : prices.GroupsAlong(axes)) {
      most = std::max(most, MostBytesSent(entries[entry], group));
    }
    cost->mutable_collectives(static_cast<int>(entry))->set_bytes(most);
  }
}

// Adds the bytes at the peak, by category and side.
void AddMemory(const Program& program, StepCost* cost) {
  cost->set_peak_bytes(program.arena_bytes());
  for (const MemorySide side : {MemorySide::kDevice, MemorySide::kHost}) {
    const MemoryReport report = ReportMemory(program, side);
    for (const Category category : kAllCategories) {
      const int64_t bytes = report.bytes_at_peak[static_cast<size_t>(category)];
      if (bytes == 0) continue;
      StepCost::Memory& memory = *cost->add_memory();
      memory.set_category(std::string(CategoryName(category)));
      memory.set_bytes(bytes);
      memory.set_on_host(side == MemorySide::kHost);
    }
  }
}

// Adds the seconds of the step, by category and collective. The Program's collectives get their
// entries if they have none.
void AddTimes(const Program& program, const Table<InstructionId, TimeSpan>& times, StepCost* cost) {
  const Overlap overlap = OverlapOf(program, times);
  std::array<double, kTimes.size()> seconds{};
  double exposed = 0;
  for (const InstructionId i : times.ids()) {
    const Instruction& instruction = program.instructions[i];
    if (!program.Communicates(instruction)) {
      seconds[TimeCategoryOf(program, instruction)] += times[i].seconds();
      continue;
    }
    const CollectiveRequest& request = program.collectives[instruction.collective];
    StepCost::Collective& collective = *cost->mutable_collectives(
        FindOrAddCollective(CollectiveOperationName(request.operation), request.mesh_axes, cost));
    collective.set_calls(collective.calls() + 1);
    collective.set_seconds(collective.seconds() + times[i].seconds());
    collective.set_exposed_seconds(collective.exposed_seconds() + overlap.exposed_seconds[i]);
    exposed += overlap.exposed_seconds[i];
  }
  cost->set_step_seconds(StepSeconds(times));
  cost->set_computation_seconds(overlap.computation_seconds);
  cost->set_exposed_seconds(exposed);
  for (size_t i = 0; i < kTimes.size(); ++i) {
    if (seconds[i] == 0) continue;
    StepCost::Time& time = *cost->add_times();
    time.set_category(kTimes[i]);
    time.set_seconds(seconds[i]);
  }
}

// Adds how much of the times rests on prices of each source.
void AddSources(const Program& program, const Table<InstructionId, TimeSpan>& times,
                const Table<InstructionId, PriceSource>& sources, StepCost* cost) {
  std::array<double, 3> computation{}, communication{};
  for (const InstructionId i : times.ids()) {
    const bool communicates = program.Communicates(program.instructions[i]);
    (communicates ? communication : computation)[static_cast<size_t>(sources[i])] +=
        times[i].seconds();
  }
  constexpr auto kMeasured = static_cast<size_t>(PriceSource::kMeasured);
  constexpr auto kInterpolated = static_cast<size_t>(PriceSource::kInterpolated);
  cost->set_measured_seconds(computation[kMeasured]);
  cost->set_interpolated_seconds(computation[kInterpolated]);
  cost->set_measured_communication_seconds(communication[kMeasured]);
  cost->set_interpolated_communication_seconds(communication[kInterpolated]);
}

}  // namespace

int FindOrAddCollective(absl::string_view operation, absl::Span<const std::string> mesh_axes,
                        StepCost* cost) {
  int entry = 0;
  for (; entry < cost->collectives_size(); ++entry) {
    const StepCost::Collective& known = cost->collectives(entry);
    if (known.operation() == operation && absl::c_is_permutation(known.mesh_axes(), mesh_axes)) {
      return entry;
    }
  }
  StepCost::Collective& added = *cost->add_collectives();
  added.set_operation(std::string(operation));
  for (const std::string& axis : mesh_axes) added.add_mesh_axes(axis);
  return entry;
}

std::string NameOf(const StepCost::Collective& collective) {
  return absl::StrCat(collective.operation(), " along ",
                      absl::StrJoin(collective.mesh_axes(), ", "));
}

const StepCost::Collective* FindCollective(const StepCost& cost, absl::string_view name) {
  for (const StepCost::Collective& collective : cost.collectives()) {
    if (NameOf(collective) == name) return &collective;
  }
  return nullptr;
}

StepCost EstimateStep(const Program& program, const Cluster& cluster, const GroupSite& job,
                      const MeasuredPrices* measured) {
  StepCost cost;
  AddMemory(program, &cost);
  AddHostCopies(program, &cost);
  const ClusterPrices prices(cluster, program.mesh, job, program.threads,
                             measured == nullptr ? nullptr : &measured->collectives);
  AddCollectives(program, prices, &cost);
  const PricedInstructions priced = PriceInstructions(program, prices, cluster, job, measured);
  const Table<InstructionId, TimeSpan> times = SimulateStep(program, priced.works, priced.order);
  AddTimes(program, times, &cost);
  AddSources(program, times, priced.sources, &cost);
  return cost;
}

StepCost EstimateStep(const Program& program, const Cluster& cluster) {
  return EstimateStep(program, cluster, SiteOnCluster(cluster, program.mesh.size()));
}

PricedInstructions PriceStep(const Program& program, const Cluster& cluster, const GroupSite& job,
                             const MeasuredPrices* measured) {
  const ClusterPrices prices(cluster, program.mesh, job, program.threads,
                             measured == nullptr ? nullptr : &measured->collectives);
  return PriceInstructions(program, prices, cluster, job, measured);
}

Table<InstructionId, TimeSpan> PredictStep(const Program& program, const Cluster& cluster,
                                           const GroupSite& job, const MeasuredPrices* measured) {
  const PricedInstructions priced = PriceStep(program, cluster, job, measured);
  return SimulateStep(program, priced.works, priced.order);
}

StepCost CostOfTimes(const Program& program, const Table<InstructionId, TimeSpan>& times) {
  StepCost cost;
  AddTimes(program, times, &cost);
  return cost;
}

}  // namespace tessera
