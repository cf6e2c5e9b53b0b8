#include "strategies/host/planning_context.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/compile/compile.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/step_cost.h"
#include "core/cost/step_sections.h"
#include "core/graph/attributes_proto.h"
#include "core/graph/graph_proto.h"
#include "core/layout/layout_proto.h"
#include "core/layout/layout_text.h"
#include "core/layout/redistribution/choice_prices.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/redistribution/redistribution_prices.h"
#include "core/plan/check.h"
#include "core/plan/choices/pass_names.h"
#include "core/plan/choices/stage_passes.h"
#include "core/plan/complete.h"
#include "core/plan/layouts/axis_use.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/run_settings.h"
#include "core/posix/available_cores.h"
#include "core/program/proto/program_proto.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "core/train/programs.h"

namespace tessera {
namespace {

// Calls `work` with the numbers below `count`, on several cores.
void OnCores(int count, const std::function<void(int)>& work) {
  constexpr int kMostThreads = 8;  // each keeps what its work needs
  std::atomic<int> next = 0;
  const auto run = [&] {
    for (int i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  const int cores = static_cast<int>(AllowedCores().size());
  for (int i = 1; i < std::min({count, cores, kMostThreads}); ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
}

// Returns the number of redistributions of a table.
int64_t SizeOf(const strategy::PriceRedistributions::Change& change) {
  return int64_t{std::max(change.from_size(), 1)} * std::max(change.to_size(), 1);
}

// Returns the layouts that texts say; B if there is none.
absl::StatusOr<std::vector<MeshLayout>> LayoutsOf(
    const google::protobuf::RepeatedPtrField<std::string>& texts, const Mesh& mesh) {
  std::vector<MeshLayout> layouts;
  if (texts.empty()) layouts.emplace_back(mesh.num_axes());
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(MeshLayout layout, ParseMeshLayout(text, mesh));
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

absl::StatusOr<std::vector<double>> PricesOf(const strategy::PriceRedistributions::Change& change,
                                             const Mesh& mesh, RedistributionPrices& between) {
  ASSIGN_OR_RETURN(const TensorType type, FromProto(change.type()));
  ASSIGN_OR_RETURN(const std::vector<MeshLayout> from, LayoutsOf(change.from(), mesh));
  ASSIGN_OR_RETURN(const std::vector<MeshLayout> to, LayoutsOf(change.to(), mesh));
  return between.Find(from, to, type);
}

// Returns the kind, the cost and the signatures of an op.
strategy::OperatorDescriptions::Operator DescriptionOf(const Graph& graph, const Op& op) {
  const std::vector<TensorType> inputs = graph.TypesOf(op.inputs);
  const std::vector<TensorType> outputs = graph.TypesOf(op.outputs);
  const OpTypes types = {inputs, outputs, op.attributes};
  const OpCost cost = op.kind->Cost(types);
  strategy::OperatorDescriptions::Operator description;
  description.set_path(op.path);
  description.set_kind(std::string(op.kind->name()));
  description.set_flops(cost.flops);
  description.set_bytes(cost.bytes);
  for (const Signature& signature : op.kind->Signatures(types)) {
    description.add_signatures(signature.ToString());
  }
  for (const Signature& signature : op.kind->StatedSignatures(types)) {
    description.add_stated_signatures(signature.ToString());
  }
  return description;
}

absl::StatusOr<Mesh> MeshOf(const google::protobuf::RepeatedPtrField<MeshAxis>& axes, int ranks) {
  return Mesh::ForRanks(AxesFromProto(axes), ranks);
}

absl::StatusOr<const Graph*> FindGraph(const std::vector<Graph>& graphs, const std::string& name) {
  std::vector<std::string> names;
  for (const Graph& graph : graphs) {
    if (graph.name() == name) return &graph;
    names.push_back(graph.name());
  }
  return absl::NotFoundError(absl::StrCat("the run has no graph '", name, "'; it has ",
                                          absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

strategy::LoweredPlans::Section ToProto(const StepSection& section) {
  strategy::LoweredPlans::Section message;
  message.set_phase(static_cast<GraphProto::Phase>(section.phase));
  message.set_recomputed(section.recomputed);
  message.set_block(section.block.index());
  message.set_begin_seconds(section.time.begin);
  message.set_end_seconds(section.time.end);
  message.set_computation_seconds(section.computation_seconds);
  message.set_peak_bytes(section.peak_bytes);
  message.set_end_bytes(section.end_bytes);
  return message;
}

// Returns the position of the Graph that a step runs: the one that trains, or else the first.
size_t StepOf(const std::vector<Graph>& graphs) {
  const auto train =
      absl::c_find_if(graphs, [](const Graph& graph) { return graph.name() == kTrain; });
  return train == graphs.end() ? 0 : train - graphs.begin();
}

}  // namespace

PlanningContext::PlanningContext(std::shared_ptr<const std::vector<Graph>> graphs,
                                 PlanningFor planning_for)
    : graphs_(std::move(graphs)),
      for_(std::move(planning_for)),
      candidates_(graphs_, StepOf(*graphs_), for_.catalogue, for_.ranks) {}

template <typename Request>
absl::StatusOr<std::shared_ptr<const std::vector<Graph>>> PlanningContext::GraphsOf(
    const Request& request) const {
  if (!request.has_rewritten_by()) return graphs_;
  RETURN_IF_ERROR(CheckPlanForm(request.rewritten_by()));
  ASSIGN_OR_RETURN(std::vector<Graph> rewritten,
                   RewriteRun(*graphs_, WithSettings(request.rewritten_by()), for_.ranks));
  return std::make_shared<const std::vector<Graph>>(std::move(rewritten));
}

absl::StatusOr<strategy::RunGraphs> PlanningContext::Graphs(
    const strategy::DescribeGraphs& request) const {
  ASSIGN_OR_RETURN(const auto run, GraphsOf(request));
  strategy::RunGraphs graphs;
  for (const Graph& graph : *run) {
    *graphs.add_graphs() = GraphToProto(graph);
    strategy::RunGraphs::Blocks& blocks = *graphs.add_blocks();
    for (const std::string& block : graph.blocks()) {
      blocks.add_fingerprints(graph.BlockFingerprint(block));
    }
  }
  return graphs;
}

absl::StatusOr<strategy::OperatorDescriptions> PlanningContext::Describe(
    const strategy::DescribeOperators& request) const {
  ASSIGN_OR_RETURN(const auto graphs, GraphsOf(request));
  ASSIGN_OR_RETURN(const Graph* const graph, FindGraph(*graphs, request.graph()));
  absl::flat_hash_set<std::string> missing(request.paths().begin(), request.paths().end());
  const bool wants_all = missing.empty();
  strategy::OperatorDescriptions descriptions;
  for (const Op& op : graph->ops()) {
    if (!wants_all && missing.erase(op.path) == 0) continue;
    *descriptions.add_operators() = DescriptionOf(*graph, op);
  }
  if (missing.empty()) return descriptions;
  return absl::NotFoundError(absl::StrCat("graph '", graph->name(), "' has no operator '",
                                          *absl::c_min_element(missing), "'"));
}

absl::StatusOr<Plan> PlanningContext::Complete(const Plan& plan) const {
  return CompletePlan(WithSettings(plan), *graphs_, for_.ranks);
}

Plan PlanningContext::WithSettings(Plan plan) const {
  FillInSettings(for_.settings, plan);
  return plan;
}

ClusterPrices PlanningContext::PricesOn(const Mesh& mesh) const {
  return {for_.cluster, mesh, for_.site, for_.catalogue->processor().threads,
          for_.prices == nullptr ? nullptr : &for_.prices->collectives};
}

double PlanningContext::SecondsOf(const KernelRequest& request, const OpCost& cost) const {
  const auto described = [&](const OpCost& of, DType dtype) {
    return ComputationSeconds(request.op, of, dtype, for_.cluster);
  };
  const DType dtype = DTypeOfRate(request.inputs);
  if (for_.prices == nullptr) return described(cost, dtype);
  return for_.prices->kernels
      .OfRequest(request, RanksOfFullestHost(for_.site), cost, dtype, described)
      .seconds;
}

double PlanningContext::SecondsOf(const Op& op, const LocalOperands& local) const {
  if (op.kind->is_view()) return 0;
  KernelRequest request;
  request.op = std::string(op.kind->name());
  request.attributes = op.attributes;
  request.inputs = local.inputs;
  request.outputs = local.outputs;
  request.threads = for_.catalogue->processor().threads;
  return SecondsOf(request, op.kind->Cost({local.inputs, local.outputs, op.attributes}));
}

absl::StatusOr<strategy::Prices> PlanningContext::Price(
    const strategy::PriceOperators& request) const {
  ASSIGN_OR_RETURN(const auto graphs, GraphsOf(request));
  ASSIGN_OR_RETURN(const Graph* const graph, FindGraph(*graphs, request.graph()));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(request.mesh(), for_.ranks));
  const ClusterPrices of_cluster = PricesOn(mesh);
  RedistributionFinder between(mesh, &ChoicePrices());
  absl::flat_hash_map<absl::string_view, const Op*> op_of;
  for (const Op& op : graph->ops()) op_of.emplace(op.path, &op);
  strategy::Prices prices;
  for (const strategy::PriceOperators::Use& use : request.uses()) {
    const auto found = op_of.find(use.path());
    if (found == op_of.end()) {
      return absl::NotFoundError(
          absl::StrCat("graph '", graph->name(), "' has no operator '", use.path(), "'"));
    }
    ASSIGN_OR_RETURN(const PricedUse priced,
                     PricedUse::Of(*graph, *found->second, use.signature(), mesh));
    double seconds = 0;
    for (const PricedUse::Kernel& kernel : priced.kernels) {
      seconds += SecondsOf(kernel.op, kernel.local);
    }
    for (const PricedUse::Completion& completion : priced.completions) {
      ASSIGN_OR_RETURN(const Redistribution* const path,
                       between.Find(completion.from, completion.to, completion.type));
      seconds += tessera::SecondsOf(path->steps, completion.type, mesh, of_cluster);
    }
    prices.add_seconds(seconds);
  }
  return prices;
}

absl::StatusOr<strategy::Prices> PlanningContext::Price(
    const strategy::PriceCollectives& request) const {
  ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(request.mesh(), for_.ranks));
  const ClusterPrices of_cluster = PricesOn(mesh);
  strategy::Prices prices;
  for (const strategy::PriceCollectives::Call& call : request.calls()) {
    if (call.operation() > ProgramProto::Collective::ALL_TO_ALL || call.elements() < 0 ||
        call.dtype() > TypeProto::U8) {
      return absl::InvalidArgumentError(
          "a price is asked of an operation that is no all-reduce, reduce-scatter, all-gather or "
          "all-to-all, or of a dtype or a number of elements that does not exist");
    }
    CollectiveCall priced;
    priced.operation = static_cast<CollectiveOperation>(call.operation());
    priced.dtype = static_cast<DType>(call.dtype());
    priced.count = call.elements();
    int64_t ranks = 1;
    for (const std::string& name : call.mesh_axes()) {
      ASSIGN_OR_RETURN(const int axis, mesh.FindAxis(name));
      priced.axes.push_back(axis);
      ranks *= mesh.axis(axis).size;
    }
    priced.part = (priced.count + ranks - 1) / ranks;
    prices.add_seconds(of_cluster.Seconds(priced, mesh));
  }
  return prices;
}

absl::StatusOr<strategy::Prices> PlanningContext::Price(
    const strategy::PriceRedistributions& request) const {
  constexpr int64_t kMost = int64_t{1} << 24;  // 128 MiB of prices
  ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(request.mesh(), for_.ranks));
  // Changes of one type share what they find. Large ones come first, so that cores end together.
  struct Group {
    std::vector<int> changes;
    int64_t size = 0;
  };
  std::map<std::string, Group> by_type;
  int64_t size = 0;
  for (int i = 0; i < request.changes_size(); ++i) {
    Group& group = by_type[request.changes(i).type().SerializeAsString()];
    group.changes.push_back(i);
    group.size += SizeOf(request.changes(i));
    size += SizeOf(request.changes(i));
  }
  if (size > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("a request asks for ", size, " prices; at most ",
                                                   kMost, " are answered at once"));
  }
  std::vector<const Group*> groups;
  for (const auto& [type, group] : by_type) groups.push_back(&group);
  absl::c_stable_sort(groups, [](const Group* a, const Group* b) { return a->size > b->size; });
  std::vector<absl::StatusOr<std::vector<double>>> found(request.changes_size());
  OnCores(static_cast<int>(groups.size()), [&](int group) {
    const ClusterPrices of_cluster = PricesOn(mesh);
    RedistributionPrices between(mesh, {ChoicePrices(), of_cluster});
    for (const int i : groups[group]->changes) {
      found[i] = PricesOf(request.changes(i), mesh, between);
    }
  });
  strategy::Prices prices;
  for (const auto& seconds : found) {
    RETURN_IF_ERROR(seconds.status());
    prices.mutable_seconds()->Add(seconds->begin(), seconds->end());
  }
  return prices;
}

absl::StatusOr<strategy::LoweredPlans::Lowered> PlanningContext::Lower(const Plan& plan,
                                                                       bool sections) const {
  if (auto known = known_.Find(plan, sections)) return *std::move(known);
  RETURN_IF_ERROR(CheckPlanForm(plan));
  // As a run is compiled, so that a candidate that is accepted can be run.
  Plan candidate = WithSettings(plan);
  *candidate.mutable_kernels() = for_.settings.kernels();
  ASSIGN_OR_RETURN(const CompiledCandidate compiled, candidates_.Compile(candidate));
  strategy::LoweredPlans::Lowered lowered;
  *lowered.mutable_cost() = EstimateProgram(compiled.step);
  lowered.mutable_cost()->set_peak_bytes(compiled.arenas.total());
  if (sections) {
    const auto times = PredictStep(compiled.step, for_.cluster, for_.site, for_.prices.get());
    for (const StepSection& section : SectionsOf(compiled.step, times)) {
      *lowered.add_sections() = ToProto(section);
    }
  }
  known_.Add(plan, lowered, sections);
  return lowered;
}

StepCost PlanningContext::Estimate(const CompiledRun& run) const {
  const tessera::Program* const train = run.FindProgram(kTrain);
  StepCost cost = EstimateProgram(train == nullptr ? run.programs.front() : *train);
  cost.set_peak_bytes(run.arena_bytes());
  return cost;
}

StepCost PlanningContext::EstimateProgram(const tessera::Program& step) const {
  return EstimateStep(step, for_.cluster, for_.site, for_.prices.get());
}

strategy::LoweredPlans PlanningContext::Lower(const strategy::LowerPlans& request) const {
  strategy::LoweredPlans lowered;
  std::vector<strategy::LoweredPlans::Lowered*> results;
  for (int i = 0; i < request.plans_size(); ++i) results.push_back(lowered.add_plans());
  OnCores(request.plans_size(), [&](int i) {
    auto found = Lower(request.plans(i), request.sections());
    if (found.ok()) {
      *results[i] = *std::move(found);
    } else {
      results[i]->set_error(std::string(found.status().message()));
    }
  });
  return lowered;
}

void PlanningContext::Remember(const strategy::LowerPlans& request,
                               const strategy::LoweredPlans& lowered) const {
  const int count = std::min(request.plans_size(), lowered.plans_size());
  for (int i = 0; i < count; ++i) {
    if (!lowered.plans(i).error().empty()) continue;
    known_.Add(request.plans(i), lowered.plans(i), request.sections());
  }
}

absl::StatusOr<ProgramProto> PlanningContext::Program(const strategy::MakeProgram& request) const {
  ASSIGN_OR_RETURN(const Graph* const graph, FindGraph(*graphs_, request.graph()));
  // Layouts of states belong to all Graphs, so all of them are compiled.
  ASSIGN_OR_RETURN(const CompiledRun run,
                   CompileRun(*graphs_, WithSettings(request.plan()), *for_.catalogue, for_.ranks));
  return ToProto(*run.FindProgram(graph->name()));
}

strategy::PassDescriptions DescribePasses() {
  strategy::PassDescriptions descriptions;
  const auto add = [&descriptions](absl::string_view name, absl::string_view help) {
    strategy::PassDescriptions::Pass& pass = *descriptions.add_passes();
    pass.set_name(std::string(name));
    pass.set_help(std::string(help));
  };
  for (size_t i = 0; i < std::size(kPassNames); ++i) add(kPassNames[i], kPassHelp[i]);
  for (const StagePassHelp& pass : StagePassesWithHelp()) add(pass.name, pass.help);
  return descriptions;
}

}  // namespace tessera
