#include "core/cost/step_cost.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/simulate_step.h"
#include "core/ids/table.h"
#include "core/program/memory/memory_plan.h"
#include "core/tensor/collective.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

// The categories of an instruction's time, in the order in which they are listed.
constexpr std::array<const char*, 5> kTimes = {"forward", "backward", "update", "recomputation",
                                               "host copies"};

// Returns the space to which an instruction copies, if it copies between the device and offload
// memory.
std::optional<MemorySpace> HostCopyTo(const Program& program, const Instruction& instruction) {
  if (instruction.kind != InstructionKind::kCopy) return std::nullopt;
  const auto space = [&](ProgramValueId id) {
    return program.buffers[program.value(id).buffer].space;
  };
  const MemorySpace from = space(instruction.inputs[0]), to = space(instruction.outputs[0]);
  const bool between = (from == MemorySpace::kOffloadHost) != (to == MemorySpace::kOffloadHost);
  return between ? std::make_optional(to) : std::nullopt;
}

// Returns the index in kTimes of an instruction that does not communicate.
size_t TimeCategoryOf(const Program& program, const Instruction& instruction) {
  if (HostCopyTo(program, instruction).has_value()) return 4;
  return instruction.recomputed ? 3 : static_cast<size_t>(instruction.phase);
}

int64_t CopiedBytes(const Program& program, const Instruction& instruction) {
  return NumBytes(program.value(instruction.inputs[0]).type);
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

double HostCopySeconds(int64_t bytes, const Cluster& cluster) {
  const double rate = cluster.host_bytes_per_second() > 0 ? cluster.host_bytes_per_second()
                                                          : cluster.memory_bytes_per_second();
  return static_cast<double>(bytes) / rate + cluster.seconds_per_instruction();
}

// Returns the traffic of sends, receives and broadcasts, which TrafficOf does not cover.
CollectiveTraffic MessageTraffic(const CollectiveRequest& request, const GroupSite& site,
                                 int position) {
  const int ranks = site.size();
  const int64_t bytes = request.elements * SizeOf(request.dtype);
  CollectiveTraffic traffic;
  traffic.steps = 1;
  int to = position;
  if (request.operation == Operation::kSend) {
    to = (position + request.shift) % ranks;
    traffic.bytes_sent = bytes;
  } else if (request.operation == Operation::kBroadcast) {
    to = ranks - 1;
    traffic.bytes_sent = position == 0 ? (ranks - 1) * bytes : 0;
  }
  const bool network =
      site.backend == CollectiveBackend::kTcp || site.host_of[position] != site.host_of[to];
  traffic.bytes_network = network ? traffic.bytes_sent : 0;
  return traffic;
}

bool IsMessage(const CollectiveRequest& request) {
  switch (request.operation) {
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
    case Operation::kAllGather:
    case Operation::kAllToAll:
      return false;
    default:
      return true;
  }
}

// Returns the call of a request that is no message, in a group of `ranks`.
CollectiveCall CallOf(const CollectiveRequest& request, int ranks) {
  CollectiveCall call;
  call.operation = request.operation;
  call.dtype = request.dtype;
  call.reduction = request.reduction;
  call.count = request.elements;
  call.part = request.elements / ranks;
  return call;
}

// Returns the seconds of a message for the slowest rank of a group.
double MessageSeconds(const CollectiveRequest& request, const GroupTraffic& group,
                      const ClusterPrices& prices) {
  double longest = 0;
  for (int position = 0; position < group.ranks(); ++position) {
    const CollectiveTraffic traffic = MessageTraffic(request, group.site(), position);
    longest = std::max(longest, prices.Seconds(traffic, group));
  }
  return longest;
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

// Returns the axes of a request that the mesh has.
std::vector<int> AxesOf(const CollectiveRequest& request, const Mesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (absl::c_linear_search(request.mesh_axes, mesh.axis(axis).name)) axes.push_back(axis);
  }
  return axes;
}

// Returns the price of a request in the slowest of its groups.
CollectivePrice PriceOf(const CollectiveRequest& request, const Mesh& mesh,
                        const ClusterPrices& prices) {
  CollectivePrice slowest;
  for (const GroupTraffic& group : prices.GroupsAlong(AxesOf(request, mesh))) {
    CollectivePrice price;
    if (IsMessage(request)) {
      price.times.alone = price.times.beside = MessageSeconds(request, group, prices);
    } else {
      price = prices.Price(CallOf(request, group.ranks()), group);
    }
    if (price.times.alone >= slowest.times.alone) slowest = price;
  }
  return slowest;
}

// Adds the entries of all collectives with their bytes. Returns the price of each request.
Table<CollectiveId, CollectivePrice> AddCollectives(const Program& program,
                                                    const ClusterPrices& prices, StepCost* cost) {
  Table<CollectiveId, int64_t> calls(program.collectives.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    if (program.Communicates(instruction)) ++calls[instruction.collective];
  }
  Table<CollectiveId, CollectivePrice> priced(calls.size());
  std::vector<std::vector<RepeatedRequest>> entries;
  for (const CollectiveId i : calls.ids()) {
    if (calls[i] == 0) continue;
    const CollectiveRequest& request = program.collectives[i];
    const auto entry = static_cast<size_t>(
        FindOrAddCollective(CollectiveOperationName(request.operation), request.mesh_axes, cost));
    if (entry == entries.size()) entries.emplace_back();
    entries[entry].push_back({&request, calls[i]});
    priced[i] = PriceOf(request, program.mesh, prices);
  }
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    const std::vector<int> axes = AxesOf(*entries[entry][0].request, program.mesh);
    int64_t most = 0;
    for (const GroupTraffic& group : prices.GroupsAlong(axes)) {
      most = std::max(most, MostBytesSent(entries[entry], group));
    }
    cost->mutable_collectives(static_cast<int>(entry))->set_bytes(most);
  }
  return priced;
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

// Returns the dtype whose rate an instruction takes that computes.
DType DTypeOfRate(const Program& program, const Instruction& instruction) {
  if (instruction.kernel == kNone) return DType::kF32;
  return DTypeOfRate(program.kernels[instruction.kernel].request.inputs);
}

// Prices the computing instructions of a Program for one rank.
class InstructionPrices {
 public:
  // `measured` may be null.
  InstructionPrices(const Program& program, const Cluster& cluster, const GroupSite& job,
                    const MeasuredPrices* measured)
      : program_(program),
        cluster_(cluster),
        measured_(measured == nullptr ? nullptr : &measured->kernels),
        ranks_(RanksOfFullestHost(job)),
        known_(program.kernels.size()) {}

  Price Of(const Instruction& instruction) {
    if (HostCopyTo(program_, instruction).has_value()) {
      return {HostCopySeconds(CopiedBytes(program_, instruction), cluster_)};
    }
    const DType dtype = DTypeOfRate(program_, instruction);
    if (measured_ == nullptr || instruction.kernel == kNone) {
      return {ComputationSeconds(instruction.cost, dtype, cluster_)};
    }
    // Instructions with the same kernel do equal work.
    std::optional<Price>& known = known_[instruction.kernel];
    if (!known.has_value()) {
      known = measured_->Of(
          program_.KernelOf(instruction), ranks_, instruction.cost, dtype,
          [this](const OpCost& cost, DType of) { return ComputationSeconds(cost, of, cluster_); });
    }
    return *known;
  }

 private:
  const Program& program_;
  const Cluster& cluster_;
  const KernelPrices* const measured_;
  const int ranks_;
  Table<KernelId, std::optional<Price>> known_;
};

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
  const Table<CollectiveId, CollectivePrice> collectives = AddCollectives(program, prices, &cost);
  Table<InstructionId, Work> works;
  Table<InstructionId, PriceSource> sources;
  works.reserve(program.instructions.size());
  sources.reserve(program.instructions.size());
  InstructionPrices computing(program, cluster, job, measured);
  for (const Instruction& instruction : program.instructions) {
    if (program.Communicates(instruction)) {
      const CollectivePrice& price = collectives[instruction.collective];
      works.push_back({price.times.alone, price.times.beside, price.times.taken});
      sources.push_back(price.source);
    } else {
      const Price price = computing.Of(instruction);
      works.push_back({price.seconds});
      sources.push_back(price.source);
    }
  }
  const IssueOrder order =
      job.backend == CollectiveBackend::kNccl ? IssueOrder::kStreams : IssueOrder::kThread;
  const Table<InstructionId, TimeSpan> times = SimulateStep(program, works, order);
  AddTimes(program, times, &cost);
  AddSources(program, times, sources, &cost);
  return cost;
}

StepCost EstimateStep(const Program& program, const Cluster& cluster) {
  return EstimateStep(program, cluster, SiteOnCluster(cluster, program.mesh.size()));
}

StepCost CostOfTimes(const Program& program, const Table<InstructionId, TimeSpan>& times) {
  StepCost cost;
  AddTimes(program, times, &cost);
  return cost;
}

}  // namespace tessera
