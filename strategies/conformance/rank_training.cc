#include "strategies/conformance/rank_training.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "collectives/testing/connect_process.h"
#include "collectives/testing/ranks.h"
#include "core/kernels/reference/backend.h"
#include "core/plan/choices/stage_passes.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/sync/mutex.h"
#include "core/train/programs.h"
#include "strategies/conformance/rank_environment.h"
#include "strategies/conformance/training_rank.h"

namespace tessera {
namespace {

// Compiles the run for each rank, in the environment of that rank. Without passes of plugins in the
// Plan, all ranks share one compilation.
absl::StatusOr<std::vector<CompiledRun>> CompileRanks(const TrainingRun& run, const Plan& plan,
                                                      int ranks) {
  const std::unique_ptr<Backend> backend = run.backend();
  const bool by_rank = run.plugin_passes && ListsPluginPasses(plan);
  std::vector<CompiledRun> compiled;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank > 0 && !by_rank) {
      compiled.push_back(compiled[0]);
      continue;
    }
    const RankEnvironmentGuard environment(rank, ranks);
    const auto passes = by_rank ? run.plugin_passes(*backend) : nullptr;
    ASSIGN_OR_RETURN(compiled.emplace_back(),
                     CompileRun(run.graphs, plan, *backend, ranks, passes.get()));
    for (size_t i = 0; i < compiled[0].programs.size(); ++i) {
      const Program& own = compiled[rank].programs[i];
      if (own.Fingerprint() == compiled[0].programs[i].Fingerprint()) continue;
      return absl::InternalError(
          absl::StrCat("rank ", rank, " compiles another program '", own.name, "' than rank 0"));
    }
  }
  return compiled;
}

// Raises the result's traffic and memory to those of a rank, if they are larger there.
void AddTraffic(const TrainingRank& rank, Mutex& mutex, TrainingResult& result) {
  MutexLock lock(&mutex);
  result.peak_bytes = rank.peak_bytes();
  for (size_t i = 0; i < result.traffic.size(); ++i) {
    comm::OperationCount& most = result.traffic[i];
    most.calls = std::max(most.calls, rank.traffic()[i].calls);
    most.bytes_sent = std::max(most.bytes_sent, rank.traffic()[i].bytes_sent);
  }
}

// The receivers of the tensors that a rank holds.
struct RankSinks {
  std::function<TensorSink*(int step)> outputs;
  TensorSink* states;
  TensorSink* others;
  std::function<void()> trained;  // called when it has trained without an error
};

absl::Status RunRank(const TrainingRun& run, CompiledRun compiled, TrainingRank& rank,
                     const RankSinks& sinks) {
  absl::Status status = rank.Prepare(std::move(compiled));
  for (int step = 0; status.ok() && step < run.steps; ++step) {
    status = rank.Step(step, *sinks.outputs(step));
  }
  if (status.ok()) status = rank.GatherStates(*sinks.states);
  if (status.ok()) status = rank.RunOthers(*sinks.others);
  if (status.ok()) sinks.trained();
  if (status.ok() && run.check_memory) status = rank.CheckMemory(run.steps);
  if (status.ok()) return rank.Leave();
  // Reports the error to the other ranks before this rank's memory is freed, because freeing is
  // collective.
  rank.Abort(status);
  return status;
}

// Returns a job name that is unique on this host.
std::string NewJob() {
  static std::atomic<int> jobs{0};
  return absl::StrCat("conformance-", getpid(), "-", jobs++);
}

}  // namespace

TrainingRun RecordTraining(std::shared_ptr<const Model> model, const RunConfig& config) {
  absl::StatusOr<Graph> train = RecordTrain(*model, config);
  TESSERA_CHECK(train.ok()) << train.status();
  for (const State& state : train->states()) {
    const ValueId gradient = train->FindValue(state.path + ".grad");
    if (gradient != kNone) train->SetOutput(state.path + ".grad", train->tensor(gradient));
  }
  absl::StatusOr<Graph> initialise = RecordInitialise(*train);
  TESSERA_CHECK(initialise.ok()) << initialise.status();
  TrainingRun run;
  run.graphs.push_back(*std::move(initialise));
  run.graphs.push_back(*std::move(train));
  run.model = std::move(model);
  run.config = config;
  run.lr = config.optimizer().lr();
  run.backend = [] { return MakeReferenceBackend(); };
  return run;
}

void AddOtherPrograms(TrainingRun& run) {
  absl::StatusOr<Graph> evaluate = RecordEvaluate(*run.model, run.config);
  TESSERA_CHECK(evaluate.ok()) << evaluate.status();
  run.graphs.push_back(*std::move(evaluate));
  absl::StatusOr<Graph> generate = RecordGenerate(*run.model);
  if (absl::IsUnimplemented(generate.status())) return;
  TESSERA_CHECK(generate.ok()) << generate.status();
  run.graphs.push_back(*std::move(generate));
}

const Graph& GraphOf(const TrainingRun& run, absl::string_view name) {
  const auto found =
      absl::c_find_if(run.graphs, [&](const Graph& graph) { return graph.name() == name; });
  TESSERA_CHECK(found != run.graphs.end()) << "there is no graph " << name;
  return *found;
}

absl::Status CauseOf(absl::Span<const absl::Status> statuses) {
  const bool alone = statuses.size() == 1;
  for (const bool of_others : {false, true}) {
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      if (statuses[rank].ok() || absl::IsAborted(statuses[rank]) != of_others) continue;
      return absl::Status(statuses[rank].code(),
                          absl::StrCat(alone ? "" : "rank ", alone ? "" : absl::StrCat(rank, ": "),
                                       statuses[rank].message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingResult> Train(const TrainingRun& run, const Plan& plan, int ranks) {
  std::vector<GatheredTensors> outputs(run.steps);
  GatheredTensors states, others;
  TrainingResult result;
  Mutex mutex;  // of `result`
  ASSIGN_OR_RETURN(std::vector<CompiledRun> compiled, CompileRanks(run, plan, ranks));
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = ranks, .seed = run.delays}, [&](comm::World& world) {
        TrainingRank rank(run, world);
        return RunRank(run, std::move(compiled[world.rank()]), rank,
                       {[&](int step) { return &outputs[step]; }, &states, &others,
                        [&] { AddTraffic(rank, mutex, result); }});
      });
  RETURN_IF_ERROR(CauseOf(statuses));
  for (GatheredTensors& step : outputs) {
    ASSIGN_OR_RETURN(result.outputs.emplace_back(), step.Take());
  }
  ASSIGN_OR_RETURN(result.states, states.Take());
  ASSIGN_OR_RETURN(result.others, others.Take());
  for (const State& state : GraphOf(run, kTrain).states()) {
    if (state.role == Role::kParameter) result.parameters[state.path] = state.type.shape;
  }
  return result;
}

absl::Status TrainOnProcesses(const TrainingRun& run, const Plan& plan, int ranks,
                              const std::string& backend, const TrainingResult& expected) {
  ASSIGN_OR_RETURN(std::vector<CompiledRun> compiled, CompileRanks(run, plan, ranks));
  std::vector<ExpectedTensors> outputs(expected.outputs.begin(), expected.outputs.end());
  ExpectedTensors states(expected.states), others(expected.others);
  const std::string job = NewJob();
  comm::WorldOptions options;
  options.backend = backend;
  const std::vector<absl::Status> statuses =
      comm::RunProcesses(ranks, [&](int number, const comm::Exchange&) -> absl::Status {
        ASSIGN_OR_RETURN(const auto world, comm::ConnectProcess(number, ranks, job, options));
        TrainingRank rank(run, *world);
        return RunRank(run, std::move(compiled[number]), rank,
                       {[&](int step) { return &outputs[step]; }, &states, &others, [] {}});
      });
  return CauseOf(statuses);
}

}  // namespace tessera
