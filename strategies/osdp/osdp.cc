// Optimal sharded data parallel (arXiv 2209.13258): each group of parameters is replicated or
// sharded, so that a step takes the least time within the memory limit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "strategies/api/kit.h"
#include "strategies/api/search/search.h"

namespace tessera::strategy {
namespace {

constexpr char kAxis[] = "data";

// How a group of parameters is stored and used.
enum Mode { kReplicated, kSharded, kGatheredOnce, kModes };

int64_t Picoseconds(double seconds) { return std::llround(seconds * 1e12); }

double TimeOf(const StepCost& cost, absl::string_view category) {
  for (const StepCost::Time& time : cost.times()) {
    if (time.category() == category) return time.seconds();
  }
  return 0;
}

// The groups of parameters in the order in which they are used, and how each is stored and used.
using Groups = std::vector<FlatGroup>;
using Modes = std::vector<int>;

struct Candidate {
  Modes modes;
  Plan plan;
  StepCost cost;
};

// Lowers candidates, each once.
class Candidates {
 public:
  Candidates(const ModelInfo& model, const Groups& groups, Host& host)
      : model_(model), groups_(groups), host_(host) {}

  absl::StatusOr<StepCost> Lower(const Modes& modes);
  // Returns the fastest one that meets the limit (0: none), or null.
  const Candidate* Fastest(int64_t limit) const;
  // Returns the one that needs the least memory.
  const Candidate& Smallest() const;
  int size() const { return static_cast<int>(candidates_.size()); }

 private:
  Plan PlanOf(const Modes& modes) const;

  const ModelInfo& model_;
  const Groups& groups_;
  Host& host_;
  std::vector<Candidate> candidates_;
};

Plan Candidates::PlanOf(const Modes& modes) const {
  PlanBuilder plan;
  plan.Axis(kAxis);
  plan.SplitBatch(model_);
  bool gathers = false, buckets = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (modes[i] == kReplicated) {
      buckets = true;
      continue;
    }
    gathers = true;
    GroupChoice& group = plan.Group(groups_[i].parameters, {kAxis});
    group.set_gather(modes[i] == kSharded ? GroupChoice::EACH_PHASE : GroupChoice::ONCE);
    group.set_reduce(GroupChoice::EACH_MICRO_BATCH);
  }
  if (buckets) plan.stage().add_pass()->mutable_bucket_gradients();
  if (gathers) {
    plan.stage().add_pass()->mutable_prefetch_gathers()->set_distance(1);
    plan.stage().add_pass()->mutable_limit_gathers()->set_in_flight(2);
  }
  return plan.Build();
}

absl::StatusOr<StepCost> Candidates::Lower(const Modes& modes) {
  for (const Candidate& known : candidates_) {
    if (known.modes == modes) return known.cost;
  }
  Candidate candidate = {modes, PlanOf(modes), {}};
  ASSIGN_OR_RETURN(candidate.cost, host_.Lower(candidate.plan));
  candidates_.push_back(std::move(candidate));
  return candidates_.back().cost;
}

const Candidate* Candidates::Fastest(int64_t limit) const {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (limit > 0 && candidate.cost.peak_bytes() > limit) continue;
    if (best == nullptr || candidate.cost.step_seconds() < best->cost.step_seconds()) {
      best = &candidate;
    }
  }
  return best;
}

const Candidate& Candidates::Smallest() const {
  return *std::min_element(candidates_.begin(), candidates_.end(),
                           [](const Candidate& a, const Candidate& b) {
                             return a.cost.peak_bytes() < b.cost.peak_bytes();
                           });
}

// The work of the model's passes, by units in the order of the forward pass: what comes before the
// blocks, the blocks, and what comes behind them.
struct Work {
  std::vector<double> share;  // of all computation
  int tail = 0;               // the last unit; those between the first and it are the blocks
  int operators = 0;
};

absl::StatusOr<Work> WorkOf(const ModelInfo& model, Host& host) {
  ASSIGN_OR_RETURN(const RunGraphs graphs, host.Graphs());
  DescribeOperators describe;
  describe.set_graph(model.graph);
  ASSIGN_OR_RETURN(const OperatorDescriptions operators, host.Describe(describe));
  const int blocks = static_cast<int>(model.blocks.size());
  Work work = {.share = std::vector<double>(blocks + 2, 0), .tail = blocks + 1};
  double all = 0;
  for (const GraphProto& graph : graphs.graphs()) {
    if (graph.name() != model.graph) continue;
    work.operators = graph.ops_size();
    bool in_forward = false, in_backward = false;  // a block has been seen in this pass
    for (int i = 0; i < graph.ops_size(); ++i) {
      const GraphProto::Op& op = graph.ops(i);
      if (op.phase() == GraphProto::UPDATE) continue;
      const bool forward = op.phase() == GraphProto::FORWARD;
      bool& in_blocks = forward ? in_forward : in_backward;
      in_blocks = in_blocks || op.block() >= 0;
      const int unit = op.block() >= 0 ? op.block() + 1 : in_blocks == forward ? work.tail : 0;
      work.share[unit] += operators.operators(i).flops();
      all += operators.operators(i).flops();
    }
  }
  for (double& share : work.share) share /= std::max(all, 1.0);
  return work;
}

// Bytes and times of the step that do not depend on how groups are stored.
struct Step {
  double forward_seconds = 0, backward_seconds = 0;  // computation of one micro-batch
  double activation_bytes = 0;
  int64_t micro_batches = 1;
};

// Returns the alternatives of a group of parameters, in the order of Mode, with the computation
// that has this share of the step's.
std::vector<search::Alternative> AlternativesOf(int64_t bytes, int64_t state_bytes, int64_t ranks,
                                                const Step& step, double share,
                                                absl::Span<const double> seconds, bool root) {
  const auto kept = static_cast<int64_t>(share * step.activation_bytes);
  const int64_t gather = Picoseconds(seconds[1]);
  search::Alternative replicated;
  replicated.forward_ps = Picoseconds(share * step.forward_seconds);
  replicated.backward_ps = Picoseconds(share * step.backward_seconds);
  // Full gradients are reduced once, after the last micro-batch.
  replicated.reduction_ps = Picoseconds(seconds[0]) / step.micro_batches;
  replicated.held_bytes = state_bytes + kept;
  replicated.growth_bytes = bytes - kept;
  search::Alternative sharded = replicated;
  sharded.forward_gather_ps = sharded.backward_gather_ps = gather;
  sharded.reduction_ps = Picoseconds(seconds[2]);
  sharded.held_bytes = (state_bytes + ranks - 1) / ranks + kept;
  sharded.growth_bytes = (bytes + ranks - 1) / ranks - kept;
  sharded.surge_bytes = 2 * bytes;  // gathered, and its full gradient
  search::Alternative once = sharded;
  once.backward_gather_ps = 0;
  once.held_bytes += bytes;
  once.growth_bytes -= root ? 0 : bytes;
  once.surge_bytes = bytes;
  // Parameters of no block are used before and behind the blocks, so they stay gathered.
  if (root) sharded = once;
  return {replicated, sharded, once};
}

absl::StatusOr<Prices> PriceGroups(const Groups& groups, int ranks, Host& host) {
  PriceCollectives request;
  MeshAxis& axis = *request.add_mesh();
  axis.set_name(kAxis);
  axis.set_size(ranks);
  using Collective = ProgramProto::Collective;
  for (const FlatGroup& group : groups) {
    for (const auto operation :
         {Collective::ALL_REDUCE, Collective::ALL_GATHER, Collective::REDUCE_SCATTER}) {
      PriceCollectives::Call& call = *request.add_calls();
      call.set_operation(operation);
      call.set_dtype(TypeProto::F32);
      call.set_elements(group.bytes / static_cast<int64_t>(sizeof(float)));
      call.add_mesh_axes(kAxis);
    }
  }
  return host.Price(request);
}

class Osdp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    Groups groups = DivideIntoGroups(model);
    // Parameters that lie in no block are needed first, and their gradients are complete last.
    std::stable_partition(groups.begin(), groups.end(),
                          [](const FlatGroup& group) { return group.root; });
    const int64_t limit = request.memory_limit_bytes();
    Candidates candidates(model, groups, host);
    Modes sharded(groups.size(), kSharded);
    ASSIGN_OR_RETURN(const StepCost smallest, candidates.Lower(sharded));
    for (const Mode mode : {kReplicated, kGatheredOnce}) {
      RETURN_IF_ERROR(candidates.Lower(Modes(groups.size(), mode)).status());
    }
    ASSIGN_OR_RETURN(const Work work, WorkOf(model, host));
    ASSIGN_OR_RETURN(search::Problem problem,
                     ProblemOf(request, host, model, groups, work, smallest));
    // The search's model of memory is corrected by what lowering finds, until its Plan fits and
    // leaves little.
    sharded.push_back(0);
    int64_t excess = smallest.peak_bytes() - search::Evaluate(problem, sharded).peak_bytes;
    for (int i = 0; i < kProposals && !host.cancelled(); ++i) {
      problem.limit_bytes = limit == 0 ? std::numeric_limits<int64_t>::max() / 4 : limit - excess;
      const search::Solution solution =
          search::Solve(problem, {.gap = kGap, .stop = [&host] { return host.cancelled(); }});
      if (!solution.found()) break;
      const Modes modes(solution.choices.begin(), solution.choices.end() - 1);
      ASSIGN_OR_RETURN(const StepCost cost, candidates.Lower(modes));
      const int64_t found = cost.peak_bytes() - solution.outcome.peak_bytes;
      if (limit == 0 || found == excess) break;
      if (cost.peak_bytes() <= limit && limit - cost.peak_bytes() < limit / 100) break;
      excess = found;
    }
    // Lowering takes time in proportion to the operators.
    const int lowerings = std::clamp(kOperators / std::max(1, work.operators), 12, 200);
    RETURN_IF_ERROR(Improve(limit, lowerings, host, candidates));
    if (const Candidate* const best = candidates.Fastest(limit); best != nullptr) {
      host.Log(absl::StrCat(
          "of ", groups.size(), " groups of parameters, ", absl::c_count(best->modes, kReplicated),
          " are replicated, ", absl::c_count(best->modes, kSharded), " sharded, and ",
          absl::c_count(best->modes, kGatheredOnce), " sharded and gathered once; ",
          candidates.size(), " Plans were lowered"));
      return best->plan;
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "no choice of what is sharded fits into ", limit,
        " bytes; the smallest limit that was found is ", candidates.Smallest().cost.peak_bytes()));
  }

 private:
  // Lowers what differs from the fastest Plan in one group, as long as that is faster.
  static absl::Status Improve(int64_t limit, int lowerings, Host& host, Candidates& candidates) {
    const Candidate* best = candidates.Fastest(limit);
    for (bool changed = best != nullptr; changed;) {
      changed = false;
      Modes modes = best->modes;
      for (size_t i = 0; i < modes.size(); ++i) {
        const int mode = modes[i];
        for (int other = 0; other < kModes; ++other) {
          if (candidates.size() >= lowerings || host.cancelled()) return absl::OkStatus();
          modes[i] = other;
          RETURN_IF_ERROR(candidates.Lower(modes).status());
        }
        modes[i] = mode;
      }
      const Candidate* const now = candidates.Fastest(limit);
      changed = now->modes != modes;
      best = now;
    }
    return absl::OkStatus();
  }

  static constexpr int kProposals = 12, kOperators = 200'000;
  static constexpr double kGap = 1e-3;

  static absl::StatusOr<search::Problem> ProblemOf(const Request& request, Host& host,
                                                   const ModelInfo& model, const Groups& groups,
                                                   const Work& work, const StepCost& lowered) {
    ASSIGN_OR_RETURN(const Prices prices, PriceGroups(groups, request.ranks(), host));
    Step step;
    step.micro_batches = std::max<int64_t>(1, request.micro_batches());
    const auto micro_batches = static_cast<double>(step.micro_batches);
    step.forward_seconds = TimeOf(lowered, "forward") / micro_batches;
    step.backward_seconds =
        (TimeOf(lowered, "backward") + TimeOf(lowered, "recomputation")) / micro_batches;
    for (const StepCost::Memory& memory : lowered.memory()) {
      if (memory.category() == "activations") step.activation_bytes = memory.bytes();
    }
    search::Problem problem;
    for (size_t i = 0; i < groups.size(); ++i) {
      int block = -1;
      int64_t state = 0;
      for (const ParameterInfo& parameter : model.parameters) {
        if (!absl::c_linear_search(groups[i].parameters, parameter.path)) continue;
        block = std::max(block, parameter.block);
        state += parameter.bytes;
        for (const OptimizerStateInfo& moment : parameter.optimizer_states) state += moment.bytes;
      }
      problem.units.push_back(
          AlternativesOf(groups[i].bytes, state, request.ranks(), step, work.share[block + 1],
                         absl::MakeConstSpan(prices.seconds().data() + 3 * i, 3), groups[i].root));
    }
    // The operators behind the blocks are a unit without parameters: those are with the first unit.
    search::Alternative tail =
        AlternativesOf(0, 0, 1, step, work.share[work.tail], {0, 0, 0}, true).front();
    problem.units.push_back({tail});
    return problem;
  }
};

}  // namespace

TESSERA_STRATEGY(
    Osdp, {
              .name = "osdp",
              .version = "0.1",
              .summary = "shards as much as the memory limit requires, where that costs the least",
          });

}  // namespace tessera::strategy
