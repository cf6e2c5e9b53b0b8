#include "strategies/conformance/rank_training.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "collectives/connected_world.h"
#include "collectives/fake/fake.h"
#include "collectives/testing/ranks.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/ops/ops.h"
#include "core/runtime/engine.h"
#include "core/runtime/memory_check.h"
#include "core/runtime/mesh_collectives.h"
#include "core/runtime/world_memory.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/sync/mutex.h"
#include "core/tensor/random.h"
#include "core/train/programs.h"
#include "strategies/conformance/rank_environment.h"

namespace tessera {
namespace {

// The batches of an evaluation, the first of which is as of this step, and the tokens that are
// generated one by one.
constexpr int kEvaluated = 2, kFirstEvaluated = 1000, kGenerated = 4;

// Returns the global values of an input of the model in a step.
std::vector<double> BatchOf(const TrainingRun& run, const std::string& input, int step) {
  if (run.given != nullptr) return run.given->batch(input, step);
  const std::vector<BatchField> fields = run.model->BatchFields(run.config.sequence());
  const BatchField* const field = FindField(fields, input);
  TESSERA_CHECK(field != nullptr) << "the model has no input " << input;
  const RandomStream stream = MakeStream(7, input);
  std::vector<double> values(run.config.batch() * field->elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = RandomUniform(stream, step, 2 * i);
    if (field->limit > 0) values[i] = std::floor(values[i] * static_cast<double>(field->limit));
    const bool ignored = RandomUniform(stream, step, 2 * i + 1) < run.ignored;
    if (field->missing < 0 && ignored) values[i] = static_cast<double>(field->missing);
  }
  return values;
}

// One rank of a training run, which is a thread or a process.
class Rank {
 public:
  Rank(const TrainingRun& run, comm::World& world) : run_(run), world_(world) {}

  // Makes the engine and initialises the states. All ranks must call it.
  absl::Status Prepare(CompiledRun compiled) {
    backend_ = run_.backend();
    const Mesh mesh = compiled.FindProgram(kTrain)->mesh;
    EngineOptions options;
    if (world_.size() > 1) {
      ASSIGN_OR_RETURN(collectives_, MeshCollectives::Create(mesh, &world_.communicator()));
    }
    options.fill = 0xFF;  // NaN
    options.rank = {world_.rank(), collectives_.get()};
    options.allocate = ArenasOf(&world_, backend_.get());
    ASSIGN_OR_RETURN(engine_, Engine::Create(std::move(compiled), backend_.get(), options));
    RETURN_IF_ERROR(engine_->SetScalarIfRead(kInitialise, "seed", 3));
    RETURN_IF_ERROR(engine_->Run(kInitialise));
    return run_.given == nullptr ? absl::OkStatus() : SetStates(run_.given->states);
  }

  // Runs a training step, checks its traffic, and adds its outputs to `outputs`.
  absl::Status Step(int step, TensorSink& outputs) {
    RETURN_IF_ERROR(SetInputs(*engine_, kTrain, step));
    const comm::Traffic before =
        collectives_ == nullptr ? comm::Traffic() : collectives_->traffic();
    RETURN_IF_ERROR(engine_->Run(kTrain));
    if (collectives_ != nullptr) RETURN_IF_ERROR(CheckTraffic(before, collectives_->traffic()));
    for (size_t i = 0; collectives_ != nullptr && i < traffic_.size(); ++i) {
      traffic_[i].calls = collectives_->traffic()[i].calls - before[i].calls;
      traffic_[i].bytes_sent = collectives_->traffic()[i].bytes_sent - before[i].bytes_sent;
    }
    return AddOutputs(kTrain, "", outputs);
  }

  // Runs the Programs other than "train" that the run has, after the last step.
  absl::Status RunOthers(TensorSink& others) {
    for (int batch = 0; engine_->HasProgram(kEvaluate) && batch < kEvaluated; ++batch) {
      RETURN_IF_ERROR(SetInputs(*engine_, kEvaluate, kFirstEvaluated + batch));
      RETURN_IF_ERROR(engine_->Run(kEvaluate));
      RETURN_IF_ERROR(
          AddOutputs(kEvaluate, absl::StrCat("evaluation of batch ", batch, ", "), others));
    }
    if (!engine_->HasProgram(kGenerate)) return absl::OkStatus();
    RETURN_IF_ERROR(engine_->ClearCaches(kGenerate));
    for (int32_t token = 0; token < kGenerated; ++token) {
      RETURN_IF_ERROR(engine_->SetInput(kGenerate, "token", absl::MakeConstSpan(&token, 1)));
      RETURN_IF_ERROR(engine_->SetScalarIfRead(kGenerate, "position", token));
      RETURN_IF_ERROR(engine_->Run(kGenerate));
      RETURN_IF_ERROR(
          AddOutputs(kGenerate, absl::StrCat("generation of token ", token, ", "), others));
    }
    return absl::OkStatus();
  }

  // Runs one more step, and the same step with fences around all buffers, which hold NaNs while
  // they are not live, and in arenas of exactly the planned size.
  absl::Status CheckMemory(int step) {
    return tessera::CheckMemory(*engine_, kTrain,
                                [&](Engine& engine) { return SetInputs(engine, kTrain, step); });
  }

  // Adds this rank's elements of all states to `states`.
  absl::Status GatherStates(TensorSink& states) {
    for (const ProgramState& state : program().states) {
      const Held held = HeldOf(program(), state.updated, world_.rank());
      std::vector<double> local(held.buffer_elements());
      RETURN_IF_ERROR(engine_->ReadStateValues(kTrain, state.path, absl::MakeSpan(local)));
      RETURN_IF_ERROR(states.Add(state.origin, held, local));
    }
    return absl::OkStatus();
  }

  // Return the results of the last step.
  const comm::Traffic& traffic() const { return traffic_; }
  int64_t peak_bytes() const { return engine_->run().arena_bytes(); }

  absl::Status Leave() {
    engine_.reset();
    return world_.Leave();
  }

  // Reports an error to the other ranks: every wait of theirs ends with it.
  void Abort(const absl::Status& why) {
    if (collectives_ != nullptr) collectives_->Abort(why);
    world_.Leave(why).IgnoreError();
  }

 private:
  const Program& program() const { return *engine_->run().FindProgram(kTrain); }

  // Compares the communicators' counters with the traffic that the Program declares.
  absl::Status CheckTraffic(const comm::Traffic& before, const comm::Traffic& after) {
    const CollectiveBackend backend =
        world_.backend() == "tcp" ? CollectiveBackend::kTcp : CollectiveBackend::kShm;
    comm::Traffic declared;
    for (const Instruction& instruction : program().instructions) {
      if (!program().Communicates(instruction)) continue;
      const CollectiveRequest& request = program().collectives[instruction.collective];
      ASSIGN_OR_RETURN(const int group, collectives_->FindOrCreateGroup(request.mesh_axes));
      const int ranks = collectives_->SizeOf(group);
      const CollectiveCall call = {request.operation, request.dtype,
                                   request.reduction, {},
                                   request.elements,  request.elements / ranks};
      const CollectiveTraffic stated =
          TrafficOf(call, {backend, std::vector<int>(ranks, 0)}, collectives_->PositionIn(group));
      comm::OperationCount& count = declared[static_cast<size_t>(request.operation)];
      count.calls += stated.calls;
      count.bytes_sent += stated.bytes_sent;
    }
    for (size_t i = 0; i < declared.size(); ++i) {
      const int64_t calls = after[i].calls - before[i].calls;
      const int64_t bytes = after[i].bytes_sent - before[i].bytes_sent;
      if (calls == declared[i].calls && bytes == declared[i].bytes_sent) continue;
      return absl::InternalError(absl::StrCat(
          "the Program declares ", declared[i].calls, " calls of ",
          CollectiveOperationName(static_cast<CollectiveOperation>(i)), " and ",
          declared[i].bytes_sent, " bytes sent; ", calls, " and ", bytes, " were counted"));
    }
    return absl::OkStatus();
  }

  // Adds the outputs of the last run of a Program. Their names follow `prefix`.
  absl::Status AddOutputs(const char* name, const std::string& prefix, TensorSink& sink) {
    const Program& program = *engine_->run().FindProgram(name);
    for (const NamedValue& output : program.outputs) {
      const Held held = HeldOf(program, output.value, world_.rank());
      std::vector<double> local(held.buffer_elements());
      RETURN_IF_ERROR(engine_->ReadOutput(name, output.name, absl::MakeSpan(local)));
      RETURN_IF_ERROR(sink.Add(absl::StrCat(prefix, output.name), held, local));
    }
    return absl::OkStatus();
  }

  // Sets this rank's elements of states, of which the global values are given by path.
  absl::Status SetStates(const Tensors& values) {
    for (const ProgramState& state : program().states) {
      const auto global = values.find(state.origin);
      if (global == values.end()) continue;
      const Held held = HeldOf(program(), state.updated, world_.rank());
      std::vector<double> local(held.buffer_elements());
      held.ForEach([&](int64_t i, int64_t element) { local[i] = global->second[element]; });
      RETURN_IF_ERROR(engine_->SetStateValues(kTrain, state.path, local));
    }
    return absl::OkStatus();
  }

  // Sets the inputs of "train" or "evaluate".
  absl::Status SetInputs(Engine& engine, const char* name, int step) {
    const auto graph = absl::c_find_if(
        engine_->run().graphs, [&](const Graph& recorded) { return recorded.name() == name; });
    const Program& program = *engine_->run().FindProgram(name);
    for (const GraphInput& input : graph->inputs()) {
      if (input.batch_dim == kNone) continue;
      const std::string& path = graph->value(input.value).path;
      const std::vector<double> global = BatchOf(run_, input.origin, step);
      const Held held = HeldOf(program, program.FindInput(path), world_.rank());
      std::vector<double> local(held.buffer_elements());
      held.ForEach([&](int64_t i, int64_t element) { local[i] = global[element]; });
      RETURN_IF_ERROR(engine.SetInput(name, path, local));
    }
    if (graph->name() != kTrain) return absl::OkStatus();
    const double lr = run_.given == nullptr ? run_.lr : run_.given->lr(step);
    RETURN_IF_ERROR(engine.SetInput(kTrain, "lr", absl::MakeConstSpan(&lr, 1)));
    RETURN_IF_ERROR(engine.SetScalarIfRead(kTrain, "seed", 3));
    return engine.SetScalarIfRead(kTrain, "step", step + 1);
  }

  const TrainingRun& run_;
  comm::World& world_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<MeshCollectives> collectives_;
  std::unique_ptr<Engine> engine_;
  comm::Traffic traffic_ = {};
};

// Returns whether a plugin changes the Programs of a Plan.
bool HasPluginPasses(const Plan& plan) {
  return absl::c_any_of(plan.stages(), [](const Stage& stage) {
    return absl::c_any_of(stage.pass(), [](const PassChoice& pass) { return pass.has_plugin(); });
  });
}

// Compiles the run for each rank, in the environment of that rank. Without passes of plugins in the
// Plan, all ranks share one compilation.
absl::StatusOr<std::vector<CompiledRun>> CompileRanks(const TrainingRun& run, const Plan& plan,
                                                      int ranks) {
  const std::unique_ptr<Backend> backend = run.backend();
  const auto passes =
      run.plugin_passes && HasPluginPasses(plan) ? run.plugin_passes(*backend) : nullptr;
  std::vector<CompiledRun> compiled;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank > 0 && passes == nullptr) {
      compiled.push_back(compiled[0]);
      continue;
    }
    const RankEnvironmentGuard environment(rank, ranks);
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
void AddTraffic(const Rank& rank, Mutex& mutex, TrainingResult& result) {
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

absl::Status RunRank(const TrainingRun& run, CompiledRun compiled, Rank& rank,
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

// Joins a job as a process that torchrun has started.
absl::StatusOr<std::unique_ptr<comm::ConnectedWorld>> ConnectProcess(int rank, int ranks,
                                                                     const std::string& job,
                                                                     const std::string& backend) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TESSERA_SECRET", "TESSERA_LISTEN_FD",
                           "TESSERA_LAUNCH", "TORCHELASTIC_USE_AGENT_STORE"}) {
    unsetenv(name);
  }
  for (const char* name : {"RANK", "LOCAL_RANK"}) setenv(name, absl::StrCat(rank).c_str(), 1);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
    setenv(name, absl::StrCat(ranks).c_str(), 1);
  }
  setenv("TORCHELASTIC_RUN_ID", job.c_str(), 1);
  comm::WorldOptions options;
  options.backend = backend;
  return comm::ConnectedWorld::Connect(options);
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
        Rank rank(run, world);
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
  const std::vector<absl::Status> statuses =
      comm::RunProcesses(ranks, [&](int number, const comm::Exchange&) -> absl::Status {
        ASSIGN_OR_RETURN(const auto world, ConnectProcess(number, ranks, job, backend));
        Rank rank(run, *world);
        return RunRank(run, std::move(compiled[number]), rank,
                       {[&](int step) { return &outputs[step]; }, &states, &others, [] {}});
      });
  return CauseOf(statuses);
}

}  // namespace tessera
