// Checks that the state of a GPT that was saved under one Plan can be loaded under any other Plan.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/fake/fake.h"
#include "core/kernels/reference/backend.h"
#include "core/plan/testing/completion.h"
#include "core/runtime/engine.h"
#include "core/runtime/mesh_collectives.h"
#include "core/runtime/world_memory.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "core/train/optimizer.h"
#include "core/train/programs.h"
#include "core/train/state/engine_states.h"
#include "core/train/state/load_state.h"
#include "core/train/state/save_state.h"
#include "core/train/state/stored_orders.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kPadding = -5;

std::unique_ptr<Model> SmallGpt() {
  GptConfig config;
  config.set_layers(2);
  config.set_heads(4);
  config.set_channels(8);
  config.set_vocabulary(24);
  config.set_context(8);
  auto model = CreateGpt(config);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Returns the Graphs of a run. Engines here use only the first one, which has all states.
std::vector<Graph> GraphsOf(const Model& model) {
  RunConfig config;
  config.set_batch(4);
  config.set_sequence(6);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_optimizer()->set_lr(0.1);
  const Graph train = *RecordTrain(model, config);
  std::vector<Graph> graphs;
  graphs.push_back(*RecordInitialise(train));
  graphs.push_back(train);
  return graphs;
}

// One rank's engine.
class RankEngine {
 public:
  static absl::StatusOr<std::unique_ptr<RankEngine>> Create(const std::vector<Graph>& graphs,
                                                            const Plan& plan, comm::World& world) {
    auto rank = std::make_unique<RankEngine>();
    rank->backend_ = MakeReferenceBackend();
    ASSIGN_OR_RETURN(const Plan completed, CompletePlan(plan, graphs, world.size()));
    ASSIGN_OR_RETURN(CompiledRun run,
                     CompileRun({graphs[0]}, completed, *rank->backend_, world.size()));
    if (world.size() > 1) {
      ASSIGN_OR_RETURN(rank->collectives_,
                       MeshCollectives::Create(run.programs[0].mesh, &world.communicator()));
    }
    EngineOptions options;
    options.rank = {world.rank(), rank->collectives_.get()};
    options.allocate = ArenasOf(&world, rank->backend_.get());
    ASSIGN_OR_RETURN(rank->engine_, Engine::Create(std::move(run), rank->backend_.get(), options));
    return rank;
  }

  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<MeshCollectives> collectives_;
  std::unique_ptr<Engine> engine_;
};

// Returns the rank's buffer of a state, computed from the definition of its layout. Element i of
// the global tensor is 10000 * `index` + i.
std::vector<double> BufferOf(const StateInfo& state, int index, const Mesh& mesh, int rank) {
  const int64_t first = int64_t{10000} * index;
  std::vector<double> buffer;
  if (!state.part.has_value()) {
    for (int64_t i = 0; i < NumElements(state.type.shape); ++i) {
      buffer.push_back(static_cast<double>(first + i));
    }
    return buffer;
  }
  const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
  const Box box = state.part->At(mesh, coordinates);
  const Shape padded = state.part->LocalShape(mesh);
  const Strides strides = RowMajorStrides(padded), of_global = RowMajorStrides(state.part->global);
  for (int64_t i = 0; i < NumElements(padded); ++i) {
    int64_t element = 0;
    bool inside = true;
    for (size_t d = 0; d < padded.size(); ++d) {
      const int64_t at = i / strides[d] % padded[d];
      inside = inside && at < box.extent[d];
      element += (box.start[d] + at) * of_global[d];
    }
    buffer.push_back(inside ? static_cast<double>(first + element) : kPadding);
  }
  if (!state.flat.has_value()) return buffer;
  // Members of flat groups have no padding.
  buffer.erase(std::remove(buffer.begin(), buffer.end(), kPadding), buffer.end());
  const FlatGroup::Range held = state.flat->HeldAt(mesh, coordinates, NumElements(box.extent));
  return std::vector<double>(buffer.begin() + held.begin, buffer.begin() + held.end);
}

std::string Encode(const std::vector<double>& values, DType dtype) {
  std::string bytes;
  for (double value : values) {
    const auto integer = static_cast<int64_t>(value);
    const auto append = [&](const auto& encoded) {
      bytes.append(reinterpret_cast<const char*>(&encoded), sizeof(encoded));
    };
    if (dtype == DType::kF64) {
      append(value);
    } else if (dtype == DType::kI64) {
      append(integer);
    } else {
      TESSERA_CHECK(dtype == DType::kI32) << DTypeName(dtype);
      append(static_cast<int32_t>(integer));
    }
  }
  return bytes;
}

// Returns the position of each state's origin among the recorded states. Slices of one state share
// it.
std::vector<int> OriginNumbers(const Engine& engine) {
  std::vector<int> numbers;
  absl::flat_hash_map<std::string, int> known;
  for (const StateInfo& state : engine.states()) {
    numbers.push_back(known.emplace(state.origin, static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

absl::Status FillStates(Engine& engine, const std::function<double(double)>& value) {
  const Mesh& mesh = engine.run().programs[0].mesh;
  const int rank = engine.options().rank.rank;
  const std::vector<int> numbers = OriginNumbers(engine);
  for (size_t i = 0; i < engine.states().size(); ++i) {
    const StateInfo& state = engine.states()[i];
    std::vector<double> buffer = BufferOf(state, numbers[i], mesh, rank);
    for (double& each : buffer) each = value(each);
    RETURN_IF_ERROR(engine.WriteState(state, 0, Encode(buffer, state.type.dtype)));
  }
  return absl::OkStatus();
}

// Expects that states are split if the Plan splits parameters.
void ExpectParts(Engine& engine, const std::string& job) {
  const bool sharded = absl::StrContains(job, "sharded");
  const auto parts = absl::c_count_if(
      engine.states(), [](const StateInfo& state) { return state.part.has_value(); });
  const auto flats = absl::c_count_if(
      engine.states(), [](const StateInfo& state) { return state.flat.has_value(); });
  const bool sliced = absl::StrContains(job, "slices");
  EXPECT_EQ(parts > 0, sharded || sliced || absl::StrContains(job, "tensor")) << job;
  EXPECT_EQ(flats > 0, sharded) << job;
}

absl::Status SaveOnRank(Engine& engine, const std::string& run, int ranks,
                        const comm::Exchange& exchange) {
  const bool first = engine.options().rank.rank == 0;
  std::unique_ptr<CheckpointSave> save;
  if (first) {
    CheckpointContents contents;
    contents.state_version = 2;
    contents.state = EntriesOf(engine.states());
    ASSIGN_OR_RETURN(save, CheckpointSave::Begin(run, std::move(contents), {}));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                   exchange("folder", first ? save->folder() : ""));
  WriteOptions options;
  options.chunk_bytes = 200;
  const ShardReport report = WriteStates(engine, ranks, folders[0], options);
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   exchange("report", report.SerializeAsString()));
  if (!first) return absl::OkStatus();
  std::vector<ShardReport> reports(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_TRUE(reports[i].ParseFromString(texts[i]));
  return save->Finish(reports).status();
}

absl::Status LoadOnRank(Engine& engine, const Model& model, const Checkpoint& checkpoint,
                        const ::testing::Matcher<std::string>& note) {
  RETURN_IF_ERROR(FillStates(engine, [](double) { return kPadding; }));
  ASSIGN_OR_RETURN(const std::vector<std::string> notes,
                   LoadState(checkpoint, model, engine, Extra::kRefuse));
  EXPECT_THAT(absl::StrJoin(notes, "; "), note);
  const Mesh& mesh = engine.run().programs[0].mesh;
  const int rank = engine.options().rank.rank;
  const std::vector<int> numbers = OriginNumbers(engine);
  for (size_t i = 0; i < engine.states().size(); ++i) {
    const StateInfo& state = engine.states()[i];
    const std::string expected = Encode(BufferOf(state, numbers[i], mesh, rank), state.type.dtype);
    std::string bytes(expected.size(), '\0');
    RETURN_IF_ERROR(engine.ReadState(state, 0, absl::MakeSpan(&bytes[0], bytes.size())));
    if (bytes != expected) {
      return absl::InternalError(absl::StrCat(state.path, " is not right on rank ", rank));
    }
  }
  return absl::OkStatus();
}

// A Plan on a number of ranks.
struct Job {
  std::string name;
  Plan plan;
  int ranks = 1;
};

std::vector<Job> Jobs() {
  std::vector<Job> jobs = {{"one process", Plan(), 1}};
  const std::string plans = "docs/plans/";
  for (const int ranks : {2, 3, 4}) {
    for (const std::string& file : {plans + "data_parallel", plans + "fully_sharded",
                                    plans + "tensor_parallel", plans + "zero1"}) {
      jobs.push_back({absl::StrCat(file, " on ", ranks), ReadPlanFile(file + ".textproto"), ranks});
    }
  }
  for (const std::string& mixed : {plans + "data_tensor_parallel", plans + "hybrid_sharded"}) {
    jobs.push_back({mixed + " on 4", ReadPlanFile(mixed + ".textproto"), 4});
  }
  // Slices along rows and columns, of qkv by heads; some are stored split.
  const Plan slices = ParsePlan(R"text(stages {
      slice { path: "wte.weight" dimension: 0 count: 5 }
      slice { path: "blocks.*.attn.qkv.weight" dimension: 0 count: 2 }
      slice { path: "blocks.*.mlp.proj.weight" dimension: 1 count: 3 } })text");
  jobs.push_back({"slices in one process", slices, 1});
  for (const std::string& file :
       {plans + "data_parallel", plans + "fully_sharded", plans + "tensor_parallel"}) {
    Plan plan = ReadPlanFile(file + ".textproto");
    plan.mutable_stages(0)->MergeFrom(slices.stages(0));
    jobs.push_back({absl::StrCat(file, " with slices on 3"), plan, 3});
  }
  return jobs;
}

// Runs `body` on each rank of a job, with an engine per rank.
void OnRanks(const Job& job, const std::vector<Graph>& graphs,
             const std::function<absl::Status(Engine&, const comm::Exchange&)>& body) {
  std::vector<std::string> texts(job.ranks);
  const auto statuses =
      comm::RunFake({.ranks = job.ranks}, [&](comm::World& world) -> absl::Status {
        ASSIGN_OR_RETURN(std::unique_ptr<RankEngine> rank,
                         RankEngine::Create(graphs, job.plan, world));
        comm::Communicator& communicator = world.communicator();
        const comm::Exchange exchange =
            [&](absl::string_view,
                absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
          texts[world.rank()] = std::string(mine);
          RETURN_IF_ERROR(communicator.Wait(communicator.Barrier()));
          std::vector<std::string> all = texts;
          RETURN_IF_ERROR(communicator.Wait(communicator.Barrier()));
          return all;
        };
        RETURN_IF_ERROR(body(rank->engine(), exchange));
        rank.reset();
        return world.Leave();
      });
  for (const absl::Status& status : statuses) ASSERT_TRUE(status.ok()) << status;
}

TEST(ShardedStateTest, AnyPlanLoadsTheCheckpointOfAnyOther) {
  const std::unique_ptr<Model> model = SmallGpt();
  const std::vector<Graph> graphs = GraphsOf(*model);
  const std::vector<Job> jobs = Jobs();
  std::vector<std::unique_ptr<Checkpoint>> checkpoints;
  for (const Job& job : jobs) {
    SCOPED_TRACE(absl::StrCat("saved with ", job.name));
    const std::string run = NewFolder(absl::StrCat("run", checkpoints.size()));
    OnRanks(job, graphs, [&](Engine& engine, const comm::Exchange& exchange) -> absl::Status {
      ExpectParts(engine, job.name);
      RETURN_IF_ERROR(FillStates(engine, [](double value) { return value; }));
      return SaveOnRank(engine, run, job.ranks, exchange);
    });
    ASSERT_FALSE(HasFailure());
    auto opened = OpenCheckpoint(run);
    ASSERT_TRUE(opened.ok()) << opened.status();
    checkpoints.push_back(std::move(opened->checkpoint));
  }
  for (const Job& job : jobs) {
    SCOPED_TRACE(absl::StrCat("loaded with ", job.name));
    OnRanks(job, graphs, [&](Engine& engine, const comm::Exchange&) -> absl::Status {
      for (const auto& checkpoint : checkpoints) {
        const absl::Status status = LoadOnRank(engine, *model, *checkpoint, IsEmpty());
        if (!status.ok()) {
          return absl::InternalError(absl::StrCat(checkpoint->folder(), ": ", status.message()));
        }
      }
      return absl::OkStatus();
    });
    ASSERT_FALSE(HasFailure());
  }
}

// Returns the values of a state in the order of dimensions of the first version: dimension d of the
// stored tensor is dimension order[d] of the state's tensor.
std::vector<double> Reordered(const std::vector<double>& values, const Shape& shape,
                              absl::Span<const int> order) {
  const Strides strides = RowMajorStrides(shape);
  const Shape stored = StoredShape(shape, order);
  const Strides stored_strides = RowMajorStrides(stored);
  std::vector<double> result(values.size());
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < stored.size(); ++d) {
      from += static_cast<int64_t>(i) / stored_strides[d] % stored[d] * strides[order[d]];
    }
    result[i] = values[from];
  }
  return result;
}

// Saves the values of FillStates in the format of one process when qkv was [3, heads, head_dim, C].
absl::Status SaveFormerVersion(const Model& model, Engine& engine, const std::string& run) {
  absl::flat_hash_map<std::string, std::vector<int>> orders;
  for (const FormerOrder& former : model.FormerOrders(1)) {
    orders[former.parameter] = former.stored;
    for (const std::string& moment : MomentPaths(former.parameter)) orders[moment] = former.stored;
  }
  CheckpointContents contents;
  std::vector<std::string> stored;  // by state
  int reordered = 0;
  for (size_t i = 0; i < engine.states().size(); ++i) {
    const StateInfo& state = engine.states()[i];
    std::vector<double> values = BufferOf(state, static_cast<int>(i), Mesh(), 0);
    StateEntry entry = {
        state.path, state.role == Role::kParameter ? kParameterRole : kOptimizerRole, state.type};
    if (const auto order = orders.find(state.path); order != orders.end()) {
      values = Reordered(values, state.type.shape, order->second);
      entry.type.shape = StoredShape(state.type.shape, order->second);
      ++reordered;
    }
    stored.push_back(Encode(values, state.type.dtype));
    contents.state.push_back(std::move(entry));
  }
  EXPECT_EQ(reordered, 12);  // weight and bias, each with two moments, in two blocks
  return SaveCheckpoint(run, contents,
                        [&](int index, int64_t offset, absl::Span<char> out) {
                          stored[index].copy(out.data(), out.size(), offset);
                          return absl::OkStatus();
                        })
      .status();
}

TEST(ShardedStateTest, AnyPlanLoadsTheFormerOrderOfQkv) {
  const std::unique_ptr<Model> model = SmallGpt();
  const std::vector<Graph> graphs = GraphsOf(*model);
  const std::vector<Job> jobs = Jobs();
  const std::string run = NewFolder("former");
  OnRanks(jobs[0], graphs, [&](Engine& engine, const comm::Exchange&) {
    return SaveFormerVersion(*model, engine, run);
  });
  const auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const Job& job : jobs) {
    SCOPED_TRACE(absl::StrCat("loaded with ", job.name));
    OnRanks(job, graphs, [&](Engine& engine, const comm::Exchange&) {
      return LoadOnRank(engine, *model, *opened->checkpoint, HasSubstr("are transposed"));
    });
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace tessera
