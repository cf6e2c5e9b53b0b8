#include "core/compile/candidates.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/compile/graph_key.h"
#include "core/compile/make_programs.h"
#include "core/compile/redistribution_choices.h"
#include "core/layout/redistribution/choice_prices.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/plan/complete.h"
#include "core/plan/layouts/decision_subjects.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/memory/memory_plan.h"
#include "core/status/status_macros.h"

namespace tessera {

namespace {

// Keeps the last values with their keys.
template <typename Value>
class LastValues {
 public:
  // Returns null if there is none.
  Value* Find(const std::string& key) const {
    for (const Entry& entry : entries_) {
      if (entry.key == key) return entry.value.get();
    }
    return nullptr;
  }
  // Adds a value, which may replace an older one. The result is valid until the next call.
  Value* Add(std::string key, Value value) {
    constexpr size_t kEntries = 4;
    if (entries_.size() == kEntries) entries_.erase(entries_.begin());
    entries_.push_back({std::move(key), std::make_unique<Value>(std::move(value))});
    return entries_.back().value.get();
  }

 private:
  struct Entry {
    std::string key;
    std::unique_ptr<Value> value;
  };
  std::vector<Entry> entries_;  // oldest first
};

}  // namespace

// All that one candidate leaves for the next one. Everything in it is a function of its key, so
// results do not depend on it.
class CandidateCompiler::Kept {
 public:
  struct KnownProgram {
    Program program;  // before its memory is planned
    // The bytes of its arenas beside the states, by whether any Program of the run communicates.
    std::array<std::optional<SpaceBytes>, 2> bytes = {};
  };
  struct KnownGraph {
    LastValues<GraphLayouts> layouts;   // by LayoutKey
    LastValues<KnownProgram> programs;  // by LayoutKey and ProgramKey
  };

  Kept(const KernelCatalogue* catalogue, const KernelChoices& kernels,
       absl::Span<const Graph> graphs)
      : kernels_(kernels.SerializeAsString()),
        chooser_(catalogue, kernels),
        subjects_(std::make_shared<const DecisionSubjects>(graphs)),
        graphs_(graphs.size()) {}

  // Counts a candidate. Returns false if what is kept is for other kernels, or has grown long
  // enough.
  bool Takes(const KernelChoices& kernels) {
    constexpr int kCandidates = 1000;
    return ++candidates_ <= kCandidates && kernels.SerializeAsString() == kernels_;
  }

  KernelChooser& chooser() { return chooser_; }
  const std::shared_ptr<const DecisionSubjects>& subjects() const { return subjects_; }
  KnownGraph& graph(size_t i) { return graphs_[i]; }
  // Returns a finder that knows the redistributions that the stage states.
  absl::StatusOr<RedistributionFinder*> FinderFor(const Mesh& mesh, const Stage& stage) {
    std::string stated = RedistributionKey(stage);
    if (finder_ == nullptr || finder_->mesh() != mesh || stated != stated_) {
      auto finder = std::make_unique<RedistributionFinder>(mesh, &ChoicePrices());
      RETURN_IF_ERROR(StateRedistributions(stage, *finder));
      finder_ = std::move(finder);
      stated_ = std::move(stated);
    }
    return finder_.get();
  }

 private:
  const std::string kernels_;
  KernelChooser chooser_;
  std::unique_ptr<RedistributionFinder> finder_;  // of the last candidate
  std::string stated_;                            // the redistributions that its Plan states
  const std::shared_ptr<const DecisionSubjects> subjects_;
  std::vector<KnownGraph> graphs_;
  int candidates_ = 0;
};

CandidateCompiler::CandidateCompiler(std::shared_ptr<const std::vector<Graph>> graphs, size_t step,
                                     const KernelCatalogue* catalogue, int ranks)
    : graphs_(std::move(graphs)),
      step_(step),
      catalogue_(catalogue),
      ranks_(ranks),
      fingerprints_(*graphs_) {}

CandidateCompiler::~CandidateCompiler() = default;

absl::StatusOr<CompiledCandidate> CandidateCompiler::Compile(const Plan& plan) const {
  std::unique_ptr<Kept> kept;
  {
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      kept = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (kept == nullptr || !kept->Takes(plan.kernels())) {
    kept = std::make_unique<Kept>(catalogue_, plan.kernels(), *graphs_);
  }
  absl::StatusOr<CompiledCandidate> compiled = CompileWith(*kept, plan);
  MutexLock lock(&mutex_);
  idle_.push_back(std::move(kept));
  return compiled;
}

absl::StatusOr<CompiledCandidate> CandidateCompiler::CompileWith(Kept& kept,
                                                                 const Plan& plan) const {
  ASSIGN_OR_RETURN(DecidedRun run, DecideRun(plan, *graphs_, ranks_, kept.subjects()));
  const size_t num_graphs = graphs_->size();
  std::vector<std::string> keys(num_graphs);
  std::vector<Kept::KnownProgram*> known(num_graphs, nullptr);
  std::vector<const GraphLayouts*> layouts(num_graphs, nullptr);
  for (size_t i = 0; i < num_graphs; ++i) {
    std::string layout_key = LayoutKey(run, i, plan);
    if (i != step_) {
      keys[i] = absl::StrCat(layout_key, ProgramKey(run, i, plan));
      known[i] = kept.graph(i).programs.Find(keys[i]);
      if (known[i] != nullptr) continue;
    }
    layouts[i] = kept.graph(i).layouts.Find(layout_key);
    if (layouts[i] != nullptr) continue;
    ASSIGN_OR_RETURN(GraphLayouts laid_out,
                     LayOutGraph(run.graphs[i], static_cast<int>(i), run.mesh, run.decisions));
    layouts[i] = kept.graph(i).layouts.Add(std::move(layout_key), std::move(laid_out));
  }
  ASSIGN_OR_RETURN(const std::vector<PlanPart> parts, CompletedParts(fingerprints_, plan));
  const Stage& stage = plan.stages_size() > 0 ? plan.stages(0) : Stage::default_instance();
  ASSIGN_OR_RETURN(RedistributionFinder * finder, kept.FinderFor(run.mesh, stage));
  ASSIGN_OR_RETURN(ProgramMaker maker,
                   ProgramMaker::Create(std::move(run), stage, *finder, kept.chooser(), nullptr));
  StateLayout states;
  CompiledCandidate compiled;
  for (size_t i = 0; i < num_graphs; ++i) {
    if (known[i] == nullptr) {
      ASSIGN_OR_RETURN(Program program, maker.Make(i, *layouts[i], parts[i]));
      if (i == step_) {
        compiled.step = std::move(program);
      } else {
        known[i] = kept.graph(i).programs.Add(std::move(keys[i]), {std::move(program)});
      }
    }
    RETURN_IF_ERROR(states.Add(i == step_ ? compiled.step : known[i]->program));
  }
  PlanMemory(states, compiled.step);
  compiled.arenas = compiled.step.arenas;
  for (Kept::KnownProgram* const other : known) {
    if (other == nullptr) continue;
    std::optional<SpaceBytes>& beside = other->bytes[states.communicates() ? 1 : 0];
    if (!beside.has_value()) beside = BytesBesideStates(states, other->program);
    SpaceBytes arenas = states.bytes();
    for (const MemorySpace space : kAllMemorySpaces) arenas[space] += (*beside)[space];
    compiled.arenas.RaiseTo(arenas);
  }
  return compiled;
}

}  // namespace tessera
