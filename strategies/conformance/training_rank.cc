#include "strategies/conformance/training_rank.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/runtime/memory_check.h"
#include "core/runtime/world_memory.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/tensor/random.h"

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

}  // namespace

absl::Status TrainingRank::Prepare(CompiledRun compiled) {
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

absl::Status TrainingRank::Step(int step, TensorSink& outputs) {
  RETURN_IF_ERROR(SetInputs(*engine_, kTrain, step));
  const comm::Traffic before = collectives_ == nullptr ? comm::Traffic() : collectives_->traffic();
  RETURN_IF_ERROR(engine_->Run(kTrain));
  if (collectives_ != nullptr) RETURN_IF_ERROR(CheckTraffic(before, collectives_->traffic()));
  for (size_t i = 0; collectives_ != nullptr && i < traffic_.size(); ++i) {
    traffic_[i].calls = collectives_->traffic()[i].calls - before[i].calls;
    traffic_[i].bytes_sent = collectives_->traffic()[i].bytes_sent - before[i].bytes_sent;
  }
  return AddOutputs(kTrain, "", outputs);
}

absl::Status TrainingRank::RunOthers(TensorSink& others) {
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

absl::Status TrainingRank::CheckMemory(int step) {
  return tessera::CheckMemory(*engine_, kTrain,
                              [&](Engine& engine) { return SetInputs(engine, kTrain, step); });
}

absl::Status TrainingRank::GatherStates(TensorSink& states) {
  for (const ProgramState& state : program().states) {
    const Held held = HeldOf(program(), state.updated, world_.rank());
    std::vector<double> local(held.buffer_elements());
    RETURN_IF_ERROR(engine_->ReadStateValues(kTrain, state.path, absl::MakeSpan(local)));
    RETURN_IF_ERROR(states.Add(state.origin, held, local));
  }
  return absl::OkStatus();
}

absl::Status TrainingRank::Leave() {
  engine_.reset();
  return world_.Leave();
}

void TrainingRank::Abort(const absl::Status& why) {
  if (collectives_ != nullptr) collectives_->Abort(why);
  world_.Leave(why).IgnoreError();
}

absl::Status TrainingRank::CheckTraffic(const comm::Traffic& before, const comm::Traffic& after) {
  const CollectiveBackend backend =
      world_.backend() == "tcp" ? CollectiveBackend::kTcp : CollectiveBackend::kShm;
  comm::Traffic declared;
  for (const Instruction& instruction : program().instructions) {
    if (!program().Communicates(instruction)) continue;
    const CollectiveRequest& request = program().collectives[instruction.collective];
    ASSIGN_OR_RETURN(const int group, collectives_->FindOrCreateGroup(request.mesh_axes));
    const int ranks = collectives_->SizeOf(group);
    const CollectiveCall call = {request.operation, request.dtype,           request.reduction, {},
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

absl::Status TrainingRank::AddOutputs(const char* name, const std::string& prefix,
                                      TensorSink& sink) {
  const Program& program = *engine_->run().FindProgram(name);
  for (const NamedValue& output : program.outputs) {
    const Held held = HeldOf(program, output.value, world_.rank());
    std::vector<double> local(held.buffer_elements());
    RETURN_IF_ERROR(engine_->ReadOutput(name, output.name, absl::MakeSpan(local)));
    RETURN_IF_ERROR(sink.Add(absl::StrCat(prefix, output.name), held, local));
  }
  return absl::OkStatus();
}

absl::Status TrainingRank::SetStates(const Tensors& values) {
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

absl::Status TrainingRank::SetInputs(Engine& engine, const char* name, int step) {
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

}  // namespace tessera
