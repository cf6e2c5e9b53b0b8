// A small run that strategies plan for a described cluster, with the exact cost of every Plan.
#ifndef TESSERA_TESTS_STRATEGIES_OSDP_FIXTURE_H_
#define TESSERA_TESTS_STRATEGIES_OSDP_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/cost/cluster.h"
#include "core/cost/prices/measured_prices.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/model/model.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/strategy.pb.h"
#include "core/train/config/run_config.pb.h"
#include "models/gpt/gpt.pb.h"
#include "strategies/host/planning_context.h"

namespace tessera {

// Returns the sizes of a GPT of two heads and 64 channels, whose head is the token embedding.
GptConfig TinyGpt(int blocks);
// Returns a run of it, with AdamW and 32 tokens in a row.
RunConfig TinyRun(int batch);

// Returns a cluster of hosts with one rank each, connected by Ethernet of 1 Gbit/s.
Cluster SlowNetwork();

struct PlanningSetup {
  std::shared_ptr<const Model> model;
  RunConfig config = TinyRun(32);
  int ranks = 4;
  Cluster cluster = SlowNetwork();
  std::shared_ptr<const MeasuredPrices> prices = nullptr;
};

// Returns a setup with a model of these sizes.
PlanningSetup SetupOf(const GptConfig& sizes);

// The question that a strategy is asked.
struct PlanQuestion {
  std::string strategy = "osdp";
  std::vector<std::string> options = {};  // "reshard=no"
  int64_t limit_bytes = 0;                // 0: none
  std::vector<strategy::PlanRequest::Setting> open = {};
};

struct PlannedStep {
  std::string name;  // of the strategy, with its options
  Plan plan;         // open, as the strategy made it
  StepCost cost;     // of the step that the host lowers
  strategy::Explanation explanation;
};

// Thread safety: const methods may be called by any number of threads.
class PlannedRun {
 public:
  explicit PlannedRun(PlanningSetup setup);

  const PlanningSetup& setup() const { return setup_; }
  const KernelCatalogue& catalogue() const { return *backend_; }
  const PlanningContext& context() const { return *context_; }
  // The Graphs of all Programs.
  const std::vector<Graph>& graphs() const { return *graphs_; }

  // Returns the cost of a step under an open Plan. Fails the test if it cannot be lowered.
  StepCost Lower(const Plan& plan) const;
  // Returns the strategy's answer, or its error.
  absl::StatusOr<PlannedStep> Ask(const PlanQuestion& question) const;
  // Returns the Plans of ddp, of fsdp, and of fsdp that gathers once.
  std::vector<PlannedStep> Baselines() const;

 private:
  const PlanningSetup setup_;
  const std::unique_ptr<Backend> backend_;
  std::shared_ptr<const std::vector<Graph>> graphs_;
  std::shared_ptr<const PlanningContext> context_;
};

// Returns the fastest of the steps that fit; null if none does.
const PlannedStep* FastestWithin(int64_t limit_bytes, const std::vector<PlannedStep>& steps);

// Returns the smallest limit that can be met, as osdp's refusal of a limit of one byte names it.
int64_t SmallestLimit(const PlannedRun& run,
                      const std::vector<strategy::PlanRequest::Setting>& open = {});
// Returns the limit that a refusal names; 0 if it names none.
int64_t LimitNamedBy(const absl::Status& refusal);

// Returns `count` limits from `least` to `most`, in equal steps.
std::vector<int64_t> LimitsBetween(int64_t least, int64_t most, int count);

// Returns what all collectives of a step send, in bytes, or one operation's calls.
int64_t SentBytes(const StepCost& cost);
int64_t CallsOf(const StepCost& cost, const std::string& operation);

// Returns what a Plan's train part says: the blocks that are recomputed, and the micro-batches.
int RecomputedBlocks(const Plan& plan);
int64_t MicroBatches(const Plan& plan);

}  // namespace tessera

#endif  // TESSERA_TESTS_STRATEGIES_OSDP_FIXTURE_H_
