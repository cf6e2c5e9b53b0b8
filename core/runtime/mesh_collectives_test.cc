// Programs with collectives on ranks that are threads of this process.
#include "core/runtime/mesh_collectives.h"

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ids/table.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/runtime/engine.h"
#include "core/runtime/memory_check.h"
#include "core/runtime/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 12;

// A rank on the reference backend, for a Program with an input x and an output y.
struct ReferenceRank : RankRun {
  ReferenceRank() : RankRun(MakeReferenceBackend()) {}
  absl::Status SetX(Engine& to, const std::function<double(int64_t)>& value) {
    return Set(to, "x", value);
  }
  absl::Status ExpectY(const std::function<double(int64_t)>& expected) {
    return Expect("y", expected);
  }
};

double Input(int rank, int64_t i) { return 0.25 * rank - 0.125 * static_cast<double>(i % 5); }

// A gradient is reduced on a stream of its own while something else is computed.
TEST(MeshCollectives, AnAllReduceRunsBesideKernels) {
  for (const int ranks : {1, 2, 4}) {
    ExpectOk(comm::RunFake({.ranks = ranks, .seed = 7}, [&](comm::World& rank) -> absl::Status {
      ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"data", ranks}}));
      Graph graph("test");
      Tensor x = graph.Input("x", {DType::kF32, {kElements}});
      Tensor a = Exp(x);
      graph.SetOutput("y", Multiply(a, Square(x)));
      ReferenceRank run;
      TestProgram made(graph, *run.backend);
      const ProgramValueId sum = made.AddValue("exp.sum", {DType::kF64, {kElements}});
      made.InsertCollective(InstructionId(1),
                            {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}},
                            made.Value("exp"), sum, "gradients");
      made.ReplaceReads(made.Value("exp"), sum, InstructionId(2));
      RETURN_IF_ERROR(run.Prepare(rank, mesh, made));
      Executor& executor = run.engine->executor("test");
      for (int step = 0; step < 20; ++step) {
        const auto input = [&](int64_t i) { return Input(rank.rank() + step, i); };
        RETURN_IF_ERROR(run.SetX(*run.engine, input));
        RETURN_IF_ERROR(step % 2 == 0 ? executor.Run() : executor.RunTimed());
        RETURN_IF_ERROR(run.ExpectY([&](int64_t i) {
          double sum = 0;
          for (int r = 0; r < ranks; ++r) sum += std::exp(Input(r + step, i));
          return sum * input(i) * input(i);
        }));
      }
      const Table<InstructionId, InstructionTime>& times = executor.times();
      for (const InstructionId i : times.ids()) {
        if (times[i].begin_ns < executor.step_begin_ns() || times[i].end_ns < times[i].begin_ns ||
            times[i].end_ns > executor.step_end_ns()) {
          return absl::InternalError(
              absl::StrCat("instruction ", i.index(), " ran outside of the step"));
        }
      }
      run.engine.reset();
      return rank.Leave();
    }));
  }
}

// Buffers of collectives are in shared memory, all others are not. Both arenas are used to their
// planned ends and not further.
TEST(MeshCollectives, PlannedMemoryIsWhatAStepUsesInEachSpace) {
  for (const bool guarded : {false, true}) {
    ExpectOk(
        comm::RunFake({.ranks = 2, .guarded = guarded}, [&](comm::World& rank) -> absl::Status {
          ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"data", 2}}));
          Graph graph("test");
          Tensor x = graph.Input("x", {DType::kF32, {kElements}});
          Tensor a = Exp(x);
          graph.SetOutput("y", Multiply(a, Square(x)));
          ReferenceRank run;
          TestProgram made(graph, *run.backend);
          const ProgramValueId sum = made.AddValue("exp.sum", {DType::kF64, {kElements}});
          made.InsertCollective(
              InstructionId(1),
              {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}},
              made.Value("exp"), sum, "gradients");
          made.ReplaceReads(made.Value("exp"), sum, InstructionId(2));
          RETURN_IF_ERROR(run.Prepare(rank, mesh, made));
          const SpaceBytes& arenas = made.program.arenas;
          if (arenas[MemorySpace::kShared] != 384 || arenas[MemorySpace::kDevice] != 0) {
            return absl::InternalError(made.program.ToString());
          }
          RETURN_IF_ERROR(CheckMemory(*run.engine, "test", [&](Engine& engine) {
            return run.SetX(engine, [&](int64_t i) { return Input(rank.rank(), i); });
          }));
          run.engine.reset();
          return rank.Leave();
        }));
  }
}

// Each axis of a mesh has its own groups: a sum over one axis, then its parts over the other.
TEST(MeshCollectives, EachAxisOfAMeshIsAGroup) {
  constexpr int kRanks = 4;
  ExpectOk(comm::RunFake({.ranks = kRanks, .seed = 3}, [&](comm::World& rank) -> absl::Status {
    ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"data", 2}, {"model", 2}}));
    Graph graph("test");
    Tensor x = graph.Input("x", {DType::kF32, {kElements}});
    graph.SetOutput("y", Negate(x));
    ReferenceRank run;
    TestProgram made(graph, *run.backend);
    const TensorType full = {DType::kF64, {kElements}}, half = {DType::kF64, {kElements / 2}};
    const ProgramValueId scattered = made.AddValue("scattered", half),
                         back = made.AddValue("back", full);
    const ProgramValueId all = made.AddValue("all", full);
    // Without waits: one stream, and groups that differ.
    made.InsertCollective(InstructionId(0),
                          {.operation = CollectiveOperation::kReduceScatter,
                           .elements = kElements,
                           .dtype = DType::kF64,
                           .mesh_axes = {"model"}},
                          made.Value("x"), scattered, "communication");
    made.InsertCollective(InstructionId(1),
                          {.operation = CollectiveOperation::kAllGather,
                           .elements = kElements,
                           .dtype = DType::kF64,
                           .mesh_axes = {"model"}},
                          scattered, back, "communication");
    made.InsertCollective(
        InstructionId(2),
        {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"model", "data"}}, back, all,
        "communication");
    made.ReplaceReads(made.Value("x"), all, InstructionId(3));
    RETURN_IF_ERROR(run.Prepare(rank, mesh, made));
    RETURN_IF_ERROR(run.SetX(*run.engine, [&](int64_t i) { return Input(rank.rank(), i); }));
    RETURN_IF_ERROR(run.engine->Run("test"));
    RETURN_IF_ERROR(run.ExpectY([&](int64_t i) {
      double sum = 0;
      for (int r = 0; r < kRanks; ++r) sum += Input(r, i);
      return -2 * sum;  // the sum of both ranks along "model"
    }));
    run.engine.reset();
    return rank.Leave();
  }));
}

TEST(MeshCollectives, MessagesGoAroundTheRing) {
  constexpr int kRanks = 3;
  ExpectOk(comm::RunFake({.ranks = kRanks, .seed = 5}, [&](comm::World& rank) -> absl::Status {
    ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"stage", kRanks}}));
    Graph graph("test");
    Tensor x = graph.Input("x", {DType::kF32, {kElements}});
    graph.SetOutput("y", Negate(x));
    ReferenceRank run;
    TestProgram made(graph, *run.backend);
    const TensorType type = {DType::kF64, {kElements}};
    const ProgramValueId received = made.AddValue("received", type),
                         copied = made.AddValue("copied", type);
    const CollectiveRequest send = {.operation = CollectiveOperation::kSend,
                                    .elements = kElements,
                                    .dtype = DType::kF64,
                                    .mesh_axes = {"stage"},
                                    .shift = 1};
    CollectiveRequest receive = send;
    receive.operation = CollectiveOperation::kReceive;
    made.InsertCollective(InstructionId(0), send, made.Value("x"), kNone, "send");
    made.InsertCollective(InstructionId(1), receive, kNone, received, "receive");
    made.Insert(InstructionId(2), InstructionKind::kCopy, received, copied, "copies");
    made.ReplaceReads(made.Value("x"), copied, InstructionId(3));
    RETURN_IF_ERROR(run.Prepare(rank, mesh, made));
    RETURN_IF_ERROR(run.SetX(*run.engine, [&](int64_t i) { return Input(rank.rank(), i); }));
    RETURN_IF_ERROR(run.engine->Run("test"));
    RETURN_IF_ERROR(
        run.ExpectY([&](int64_t i) { return -Input((rank.rank() + kRanks - 1) % kRanks, i); }));
    run.engine.reset();
    return rank.Leave();
  }));
}

// Every rank draws the numbers of its own part, from one Program and one kernel request.
TEST(RankRules, RanksDrawTheirPartsOfOneTensor) {
  constexpr int64_t kRows = 5, kColumns = 3;  // 3 rows on rank 0, 2 and one of padding on rank 1
  const auto draw = [&](int ranks, int rank, const Shape& local) -> std::vector<double> {
    const std::unique_ptr<Backend> backend = MakeReferenceBackend();
    Graph graph("test");
    Tensor x = graph.Input("x", {DType::kF32, local});
    graph.SetOutput("y", Dropout(x, 0.5));
    TestProgram made(graph, *backend);
    made.program.mesh = *Mesh::Create({{"data", ranks}});
    PartRule& part = made.program.draws[DrawId(0)].part;
    part.global = part.extent = {kRows, kColumns};
    part.layout = MeshLayout({AxisLayout::Split(0)});
    EXPECT_TRUE(made.Finish().ok()) << VerifyProgram(made.program);
    EXPECT_EQ(made.program.kernels[KernelId(0)].key.find("random_path"), std::string::npos);
    CompiledRun compiled;
    compiled.arenas = made.program.arenas;
    compiled.programs.push_back(made.program);
    EngineOptions options;
    options.rank.rank = rank;
    auto engine = Engine::Create(std::move(compiled), backend.get(), options);
    std::vector<double> y(NumElements(local), 1.0);
    EXPECT_TRUE((*engine)->SetInput("test", "x", y).ok());
    for (const char* input : {"seed", "step"}) {
      EXPECT_TRUE((*engine)->SetScalarIfRead("test", input, 7).ok());
    }
    EXPECT_TRUE((*engine)->Run("test").ok());
    EXPECT_TRUE((*engine)->ReadOutput("test", "y", absl::MakeSpan(y)).ok());
    return y;
  };
  const std::vector<double> all = draw(1, 0, {kRows, kColumns});
  const std::vector<double> first = draw(2, 0, {3, kColumns}), second = draw(2, 1, {3, kColumns});
  for (int64_t i = 0; i < 3 * kColumns; ++i) EXPECT_EQ(first[i], all[i]) << i;
  for (int64_t i = 0; i < 2 * kColumns; ++i) EXPECT_EQ(second[i], all[3 * kColumns + i]) << i;
}

TEST(RankRules, ADrawOfAnotherPartIsRefused) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("test");
  graph.SetOutput("y", Dropout(graph.Input("x", {DType::kF32, {4, 3}}), 0.5));
  TestProgram made(graph, *backend);
  made.program.mesh = *Mesh::Create({{"data", 2}});
  PartRule& part = made.program.draws[DrawId(0)].part;
  part.layout = MeshLayout({AxisLayout::Split(0)});
  EXPECT_THAT(made.Finish().ToString(), HasSubstr("dropout: draws [2, 3], its output is [4, 3]"));
  part.extent = {4, 4};
  EXPECT_THAT(VerifyProgram(made.program).ToString(),
              HasSubstr("a part [4, 4] at [0, 0] does not lie within [4, 3]"));
}

// Returns the error of making an executor for y = negate(collective(x)) on one rank.
std::string Error(const CollectiveRequest& request, const TensorType& output, bool alone) {
  std::string error;
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = 1}, [&](comm::World& rank) -> absl::Status {
        ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"data", 1}}));
        Graph graph("test");
        graph.SetOutput("y", Negate(graph.Input("x", {DType::kF32, {kElements}})));
        ReferenceRank run;
        TestProgram made(graph, *run.backend);
        const ProgramValueId made_output = made.AddValue("x.out", output);
        made.InsertCollective(InstructionId(0), request, made.Value("x"), made_output, "gradients");
        made.program.outputs.push_back({"out", made_output});
        RETURN_IF_ERROR(made.Finish());
        ASSIGN_OR_RETURN(run.collectives, MeshCollectives::Create(mesh, &rank.communicator()));
        error = Executor::Create(&made.program, run.backend.get(), Arenas(),
                                 {0, alone ? nullptr : run.collectives.get()})
                    .status()
                    .ToString();
        return rank.Leave();
      });
  ExpectOk(statuses);
  return error;
}

TEST(MeshCollectives, ErrorsSayWhatIsMissing) {
  CollectiveRequest request = {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}};
  const TensorType full = {DType::kF64, {kElements}}, half = {DType::kF64, {kElements / 2}};
  EXPECT_THAT(Error(request, full, true),
              HasSubstr("program 'test' runs on ranks: x.out is all-reduce of 12 f64 (sum) over "
                        "data; this run has one process alone"));
  request.mesh_axes = {"model"};
  EXPECT_THAT(Error(request, full, false), HasSubstr("the mesh (data: 1) has no axis 'model'"));
  request.mesh_axes = {"data"};
  request.operation = CollectiveOperation::kReduceScatter;
  EXPECT_THAT(Error(request, half, false), HasSubstr("has 1 ranks, but parts of 6 elements"));
}

}  // namespace
}  // namespace tessera
