#include "core/cost/instruction_prices.h"

#include <algorithm>

#include "core/cost/request_traffic.h"

namespace tessera {
namespace {

double HostCopySeconds(int64_t bytes, const Cluster& cluster) {
  const double rate = cluster.host_bytes_per_second() > 0 ? cluster.host_bytes_per_second()
                                                          : cluster.memory_bytes_per_second();
  return static_cast<double>(bytes) / rate + cluster.seconds_per_instruction();
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

struct PricedRequest {
  CollectivePrice price;
  bool between_hosts = false;
};

// Returns the price of a request in the slowest of its groups.
PricedRequest PriceOf(const CollectiveRequest& request, const Mesh& mesh,
                      const ClusterPrices& prices) {
  PricedRequest slowest;
  for (const GroupTraffic& group : prices.GroupsAlong(AxesOf(request, mesh))) {
    CollectivePrice price;
    if (IsMessage(request)) {
      price.times.alone = price.times.beside = MessageSeconds(request, group, prices);
    } else {
      price = prices.Price(CallOf(request, group.ranks()), group);
    }
    if (price.times.alone >= slowest.price.times.alone) slowest = {price, group.hosts() > 1};
  }
  return slowest;
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
      return OfCopy(instruction, HostCopySeconds(CopiedBytes(program_, instruction), cluster_));
    }
    if (instruction.kernel == kNone) {
      return OfCopy(instruction, ComputationSeconds("", instruction.cost, DType::kF32, cluster_));
    }
    const KernelRequest& request = program_.KernelOf(instruction).request;
    const DType dtype = DTypeOfRate(request.inputs);
    const auto described = [&](const OpCost& cost, DType of) {
      return ComputationSeconds(request.op, cost, of, cluster_);
    };
    if (measured_ == nullptr) return {described(instruction.cost, dtype)};
    // Instructions with the same kernel do equal work.
    std::optional<Price>& known = known_[instruction.kernel];
    if (!known.has_value()) {
      known = WithGap(measured_->Of(program_.KernelOf(instruction), ranks_, instruction.cost, dtype,
                                    described));
    }
    return *known;
  }

 private:
  Price OfCopy(const Instruction& copy, double described) const {
    if (measured_ == nullptr) return {described};
    return WithGap(measured_->OfCopy(CopyName(program_, copy), ranks_, described));
  }

  // Described prices have the time between instructions (Cluster::seconds_per_instruction).
  Price WithGap(Price price) const {
    if (price.source != PriceSource::kDescribed) price.seconds += measured_->OfGap(ranks_).seconds;
    return price;
  }

  const Program& program_;
  const Cluster& cluster_;
  const KernelPrices* const measured_;
  const int ranks_;
  Table<KernelId, std::optional<Price>> known_;
};

}  // namespace

std::optional<MemorySpace> HostCopyTo(const Program& program, const Instruction& instruction) {
  if (instruction.kind != InstructionKind::kCopy) return std::nullopt;
  const auto space = [&](ProgramValueId id) {
    return program.buffers[program.value(id).buffer].space;
  };
  const MemorySpace from = space(instruction.inputs[0]), to = space(instruction.outputs[0]);
  const bool between = (from == MemorySpace::kOffloadHost) != (to == MemorySpace::kOffloadHost);
  return between ? std::make_optional(to) : std::nullopt;
}

int64_t CopiedBytes(const Program& program, const Instruction& instruction) {
  return NumBytes(program.value(instruction.inputs[0]).type);
}

PricedInstructions PriceInstructions(const Program& program, const ClusterPrices& collectives,
                                     const Cluster& cluster, const GroupSite& job,
                                     const MeasuredPrices* measured) {
  Table<CollectiveId, std::optional<PricedRequest>> requests(program.collectives.size());
  InstructionPrices computing(program, cluster, job, measured);
  PricedInstructions priced;
  priced.works.reserve(program.instructions.size());
  priced.sources.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    if (program.Communicates(instruction)) {
      std::optional<PricedRequest>& request = requests[instruction.collective];
      if (!request.has_value()) {
        request = PriceOf(program.collectives[instruction.collective], program.mesh, collectives);
      }
      const CollectiveTimes& times = request->price.times;
      priced.works.push_back({times.alone, times.beside, times.taken, request->between_hosts});
      priced.sources.push_back(request->price.source);
    } else {
      const Price price = computing.Of(instruction);
      priced.works.push_back({price.seconds});
      priced.sources.push_back(price.source);
    }
  }
  // GPUs have streams; on a CPU a thread issues everything.
  if (job.backend == CollectiveBackend::kNccl) priced.order = IssueOrder::kStreams;
  return priced;
}

}  // namespace tessera
