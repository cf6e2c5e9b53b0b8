#include "strategies/conformance/rank_training.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
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

namespace tessera {
namespace {

// Returns the global values of tokens or targets in a step.
std::vector<double> BatchOf(const TrainingRun& run, const std::string& input, int step) {
  const RandomStream stream = MakeStream(7, input);
  std::vector<double> values(run.batch * run.sequence);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        std::floor(RandomUniform(stream, step, 2 * i) * static_cast<double>(run.vocabulary));
    const bool ignored = RandomUniform(stream, step, 2 * i + 1) < run.ignored;
    if (input == "targets" && ignored) values[i] = kIgnoreIndex;
  }
  return values;
}

class Rank {
 public:
  Rank(const TrainingRun& run, comm::World& world) : run_(run), world_(world) {}

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
    return engine_->Run(kInitialise);
  }

  absl::Status Step(int step, TensorSink& outputs) {
    RETURN_IF_ERROR(SetInputs(*engine_, step));
    const comm::Traffic before =
        collectives_ == nullptr ? comm::Traffic() : collectives_->traffic();
    RETURN_IF_ERROR(engine_->Run(kTrain));
    if (collectives_ != nullptr) RETURN_IF_ERROR(CheckTraffic(before, collectives_->traffic()));
    for (size_t i = 0; collectives_ != nullptr && i < traffic_.size(); ++i) {
      traffic_[i].calls = collectives_->traffic()[i].calls - before[i].calls;
      traffic_[i].bytes_sent = collectives_->traffic()[i].bytes_sent - before[i].bytes_sent;
    }
    for (const NamedValue& output : program().outputs) {
      const Held held = HeldOf(program(), output.value, world_.rank());
      std::vector<double> local(held.buffer_elements());
      RETURN_IF_ERROR(engine_->ReadOutput(kTrain, output.name, absl::MakeSpan(local)));
      RETURN_IF_ERROR(outputs.Add(output.name, held, local));
    }
    return absl::OkStatus();
  }

  // Runs one more step, and the same step with fences around all buffers, which hold NaNs while
  // they are not live, and in arenas of exactly the planned size.
  absl::Status CheckMemory(int step) {
    return tessera::CheckMemory(*engine_, kTrain,
                                [&](Engine& engine) { return SetInputs(engine, step); });
  }

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
      ASSIGN_OR_RETURN(const int group, collectives_->GroupAlong(request.mesh_axes));
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

  absl::Status SetInputs(Engine& engine, int step) {
    const auto train = absl::c_find_if(engine_->run().graphs,
                                       [](const Graph& graph) { return graph.name() == kTrain; });
    for (const GraphInput& input : train->inputs()) {
      if (input.batch_dim == kNone) continue;
      const std::string& path = train->value(input.value).path;
      const std::vector<double> global = BatchOf(run_, input.origin, step);
      const Held held = HeldOf(program(), program().FindInput(path), world_.rank());
      std::vector<double> local(held.buffer_elements());
      held.ForEach([&](int64_t i, int64_t at) { local[i] = global[at]; });
      RETURN_IF_ERROR(engine.SetInput(kTrain, path, local));
    }
    RETURN_IF_ERROR(engine.SetInput(kTrain, "lr", absl::MakeConstSpan(&run_.lr, 1)));
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

// Compiles the run for each rank. Without passes of plugins, all ranks share one compilation.
absl::StatusOr<std::vector<CompiledRun>> CompileRanks(const TrainingRun& run, const Plan& plan,
                                                      int ranks) {
  const std::unique_ptr<Backend> backend = run.backend();
  std::vector<CompiledRun> compiled;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank > 0 && !run.plugin_passes) {
      compiled.push_back(compiled[0]);
      continue;
    }
    const auto passes = run.plugin_passes ? run.plugin_passes(*backend) : nullptr;
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
  std::function<void()> trained;  // called when it has trained without an error
};

absl::Status RunRank(const TrainingRun& run, comm::World& world, CompiledRun compiled, Rank& rank,
                     const RankSinks& sinks) {
  absl::Status status = rank.Prepare(std::move(compiled));
  for (int step = 0; status.ok() && step < run.steps; ++step) {
    status = rank.Step(step, *sinks.outputs(step));
  }
  if (status.ok()) status = rank.GatherStates(*sinks.states);
  if (status.ok()) sinks.trained();
  if (status.ok() && run.check_memory) status = rank.CheckMemory(run.steps);
  if (status.ok()) return rank.Leave();
  // Reports the error to the other ranks before this rank's memory is freed, because freeing is
  // collective.
  world.Leave(status).IgnoreError();
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

constexpr char kLoss[] = "loss";  // the output of a training Graph

// Returns x if b = x a, or 0 if b is not a multiple of a.
double FactorOf(absl::Span<const double> a, absl::Span<const double> b) {
  constexpr double kRounding = 1e-4;  // of b's norm
  double aa = 0, ab = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    aa += a[i] * a[i];
    ab += a[i] * b[i];
    bb += b[i] * b[i];
  }
  const bool is_multiple = aa > 0 && bb - ab * ab / aa <= kRounding * kRounding * bb;
  return is_multiple ? ab / aa : 0;
}

void CompareTensors(const Tensors& a, const Tensors& b, const std::string& when,
                    Difference& largest) {
  TESSERA_CHECK(a.size() == b.size()) << when;
  for (const auto& [path, values] : a) {
    const auto other = b.find(path);
    TESSERA_CHECK(other != b.end() && other->second.size() == values.size()) << path;
    double distance = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = values[i] - other->second[i];
      distance += difference * difference;
      norm += values[i] * values[i];
    }
    const double relative = distance == 0 ? 0 : std::sqrt(distance / norm);
    if (relative <= largest.relative) continue;
    largest = {relative, absl::StrCat(when, path), FactorOf(values, other->second)};
  }
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
  run.batch = config.batch();
  run.sequence = config.sequence();
  run.vocabulary = model->vocabulary();
  run.model = std::move(model);
  run.config = config;
  run.lr = config.optimizer().lr();
  run.backend = [] { return MakeReferenceBackend(); };
  return run;
}

absl::StatusOr<TrainingResult> Train(const TrainingRun& run, const Plan& plan, int ranks) {
  std::vector<GatheredTensors> outputs(run.steps);
  GatheredTensors states;
  TrainingResult result;
  Mutex mutex;  // of `result`
  ASSIGN_OR_RETURN(std::vector<CompiledRun> compiled, CompileRanks(run, plan, ranks));
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = ranks, .seed = run.delays}, [&](comm::World& world) {
        Rank rank(run, world);
        return RunRank(run, world, std::move(compiled[world.rank()]), rank,
                       {[&](int step) { return &outputs[step]; }, &states,
                        [&] { AddTraffic(rank, mutex, result); }});
      });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  for (GatheredTensors& step : outputs) {
    ASSIGN_OR_RETURN(result.outputs.emplace_back(), step.Take());
  }
  ASSIGN_OR_RETURN(result.states, states.Take());
  for (const State& state : run.graphs.back().states()) {
    if (state.role == Role::kParameter) result.parameters[state.path] = state.type.shape;
  }
  return result;
}

absl::Status TrainOnProcesses(const TrainingRun& run, const Plan& plan, int ranks,
                              const std::string& backend, const TrainingResult& expected) {
  ASSIGN_OR_RETURN(std::vector<CompiledRun> compiled, CompileRanks(run, plan, ranks));
  std::vector<ExpectedTensors> outputs(expected.outputs.begin(), expected.outputs.end());
  ExpectedTensors states(expected.states);
  const std::string job = NewJob();
  const std::vector<absl::Status> statuses =
      comm::RunProcesses(ranks, [&](int number, const comm::Exchange&) -> absl::Status {
        ASSIGN_OR_RETURN(const auto world, ConnectProcess(number, ranks, job, backend));
        Rank rank(run, *world);
        return RunRank(run, *world, std::move(compiled[number]), rank,
                       {[&](int step) { return &outputs[step]; }, &states, [] {}});
      });
  for (int rank = 0; rank < ranks; ++rank) {
    if (statuses[rank].ok()) continue;
    return absl::InternalError(absl::StrCat("rank ", rank, ": ", statuses[rank].message()));
  }
  return absl::OkStatus();
}

Difference Compare(const TrainingResult& a, const TrainingResult& b, double enough) {
  Difference largest;
  TESSERA_CHECK(a.outputs.size() == b.outputs.size());
  for (size_t step = 0; step < a.outputs.size(); ++step) {
    CompareTensors(a.outputs[step], b.outputs[step], absl::StrCat("step ", step, ", "), largest);
    if (largest.relative > enough) return largest;
  }
  CompareTensors(a.states, b.states, "state ", largest);
  return largest;
}

Difference CompareLowered(const TrainingResult& a, const TrainingResult& b) {
  Difference largest;
  CompareTensors(a.outputs.front(), b.outputs.front(), "step 0, ", largest);
  const auto loss = [](const Tensors& outputs) -> Tensors { return {{kLoss, outputs.at(kLoss)}}; };
  for (size_t step = 1; step < a.outputs.size(); ++step) {
    CompareTensors(loss(a.outputs[step]), loss(b.outputs[step]), absl::StrCat("step ", step, ", "),
                   largest);
  }
  CompareTensors(a.states, b.states, "state ", largest);
  return largest;
}

Difference CompareParameters(const TrainingResult& a, const TrainingResult& b) {
  double distance = 0, norm = 0;
  for (const auto& [path, shape] : a.parameters) {
    const std::vector<double>& x = a.states.at(path);
    const std::vector<double>& y = b.states.at(path);
    // [heads, 3, head_dim]: query, key and value of each head.
    const size_t head_dim = absl::EndsWith(path, "attn.qkv.bias") ? shape.back() : 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (head_dim > 0 && i / head_dim % 3 == 1) continue;
      distance += (x[i] - y[i]) * (x[i] - y[i]);
      norm += x[i] * x[i];
    }
  }
  return {distance == 0 ? 0 : std::sqrt(distance / norm), "the parameters"};
}

}  // namespace tessera
