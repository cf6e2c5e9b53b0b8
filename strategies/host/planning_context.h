// A planning context: the Graphs of a run at one batch size, and the services on them that
// strategies use.
#ifndef TESSERA_STRATEGIES_HOST_PLANNING_CONTEXT_H_
#define TESSERA_STRATEGIES_HOST_PLANNING_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/candidates.h"
#include "core/compile/compile.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/prices/measured_prices.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/proto/strategy.pb.h"
#include "strategies/host/known_lowerings.h"
#include "strategies/host/priced_use.h"

namespace tessera {

// Records the Graphs of a run at another batch size (0: that of the run).
using RecordGraphs =
    std::function<absl::StatusOr<std::vector<Graph>>(int64_t batch, int64_t sequence)>;

// The catalogue, ranks and cluster that a run is planned for.
struct PlanningFor {
  const KernelCatalogue* catalogue = nullptr;  // outlives the context
  int ranks = 1;
  Cluster cluster = {};  // CheckCluster accepts it
  GroupSite site = {};   // the host of each rank, and the backend of their communicators
  // The run's settings (core/plan/run_settings.h). They complete open settings of a Plan.
  Plan settings = {};
  // Measured prices of the ranks' machine; null if there are none.
  std::shared_ptr<const MeasuredPrices> prices = nullptr;
};

// Thread safety: const methods may be called by any number of threads. Everything is a function of
// the arguments. Errors are InvalidArgument or NotFound, in one line.
class PlanningContext {
 public:
  PlanningContext(std::vector<Graph> graphs, PlanningFor planning_for)
      : PlanningContext(std::make_shared<const std::vector<Graph>>(std::move(graphs)),
                        std::move(planning_for)) {}
  // Shares the Graphs, which may take much memory.
  PlanningContext(std::shared_ptr<const std::vector<Graph>> graphs, PlanningFor planning_for);

  const PlanningFor& planned_for() const { return for_; }

  // Several requests have a Plan. They are then about the Graphs as that Plan rewrites them.
  absl::StatusOr<strategy::RunGraphs> Graphs(const strategy::DescribeGraphs& request) const;
  absl::StatusOr<strategy::OperatorDescriptions> Describe(
      const strategy::DescribeOperators& request) const;
  // Returns times in seconds, as measured on the ranks' machine or from the rates of the cluster.
  // Those of a redistribution are of the collectives that lowering chooses.
  absl::StatusOr<strategy::Prices> Price(const strategy::PriceOperators& request) const;
  absl::StatusOr<strategy::Prices> Price(const strategy::PriceCollectives& request) const;
  absl::StatusOr<strategy::Prices> Price(const strategy::PriceRedistributions& request) const;
  absl::StatusOr<Plan> Complete(const Plan& plan) const;
  // Returns the cost of a training step under each candidate, with the kernels of the settings (for
  // other requests the default ones), or the error that a run of the candidate would have. Several
  // are compiled at a time, on the cores of this process.
  strategy::LoweredPlans Lower(const strategy::LowerPlans& request) const;
  // Takes what a copy of this context, in another process, returned for a request.
  void Remember(const strategy::LowerPlans& request, const strategy::LoweredPlans& lowered) const;
  absl::StatusOr<ProgramProto> Program(const strategy::MakeProgram& request) const;
  // Returns the cost of a training step (or of the first Program if none trains), and the memory
  // peak of all Programs.
  StepCost Estimate(const CompiledRun& run) const;

 private:
  // Returns the Graphs of the run, as a Plan rewrites them if the message of a request has one.
  template <typename Request>
  absl::StatusOr<std::shared_ptr<const std::vector<Graph>>> GraphsOf(const Request& request) const;
  // Returns the prices of collectives on a mesh of all ranks.
  ClusterPrices PricesOn(const Mesh& mesh) const;
  // Returns the price of a kernel on a rank, by its request and by the op that it runs.
  double SecondsOf(const KernelRequest& request, const OpCost& cost) const;
  double SecondsOf(const Op& op, const LocalOperands& local) const;
  absl::StatusOr<strategy::LoweredPlans::Lowered> Lower(const Plan& plan, bool sections) const;
  // Returns the cost of a step that runs this Program.
  StepCost EstimateProgram(const tessera::Program& step) const;
  // Returns the Plan with the settings of the run.
  Plan WithSettings(Plan plan) const;

  const std::shared_ptr<const std::vector<Graph>> graphs_;
  const PlanningFor for_;
  const CandidateCompiler candidates_;
  mutable KnownLowerings known_;
};

// Returns the passes that a Plan may name.
strategy::PassDescriptions DescribePasses();

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLANNING_CONTEXT_H_
