#include "core/train/data/batch_inputs.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/fake/fake.h"
#include "core/compile/compile.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/layout_proto.h"
#include "core/status/status_macros.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/testing/read_rows.h"
#include "core/train/programs.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/ranks/ranks.h"
#include "core/train/testing/bigram.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 3, kSequence = 4;

// Rows of a dataset that ends in the third batch, of which one row exists.
constexpr int64_t kRows = 2 * kBatch + 1;

// Compiles the evaluation of a batch with this layout on a mesh.
absl::StatusOr<CompiledRun> Compiled(const Backend& backend, const Mesh& mesh,
                                     const MeshLayout& layout, Ranks& ranks) {
  RunConfig config = BigramConfig();
  config.set_batch(kBatch);
  config.set_sequence(kSequence);
  ASSIGN_OR_RETURN(const std::vector<Graph> graphs,
                   RecordRun(BigramModel(), config, RunGraphs::kEvaluate));
  Plan plan;
  Stage& stage = *plan.add_stages();
  *stage.mutable_mesh() = ToProto(mesh);
  StoreChoice& store = *stage.add_store();
  store.set_path("tokens|targets");
  store.set_layout(layout.ToString(mesh));
  return CompileTogether(graphs, plan, backend, ranks);
}

std::vector<double> InputOf(Engine& engine, absl::string_view name) {
  Executor& executor = engine.executor(kEvaluate);
  const Program& program = executor.program();
  const ProgramValueId value = program.FindInput(name);
  std::vector<int32_t> values(NumElements(program.value(value).type.shape));
  EXPECT_TRUE(engine
                  .ReadArena(program.AddressOf(value),
                             absl::MakeSpan(reinterpret_cast<char*>(values.data()),
                                            values.size() * sizeof(int32_t)))
                  .ok());
  return std::vector<double>(values.begin(), values.end());
}

// Checks the inputs of this rank against the rows of the last batch in `rows`.
absl::Status CheckInputs(const Dataset& dataset, const Mesh& mesh, const MeshLayout& layout,
                         const TokenRows& rows, Ranks& ranks) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  ASSIGN_OR_RETURN(CompiledRun run, Compiled(*backend, mesh, layout, ranks));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeRankEngine(std::move(run), backend.get(), ranks));
  BatchInputs inputs(&dataset, BigramModel().BatchFields(kSequence), kBatch);
  EXPECT_EQ(inputs.EvaluationBatches(), 3);
  std::vector<BatchInput> batch;
  RETURN_IF_ERROR(inputs.Read(*engine, kEvaluate, DataSplit::kEvaluate, 2 * kBatch, &batch));
  RETURN_IF_ERROR(SetBatch(*engine, kEvaluate, batch));
  const Shape global = {kBatch, kSequence};
  const Box box = BoxOf(layout, global, mesh, mesh.CoordinatesOf(ranks.rank()));
  const Shape local = LocalShape(layout, global, mesh);
  const std::vector<double> its_tokens = InputOf(*engine, "tokens");
  const std::vector<double> its_targets = InputOf(*engine, "targets");
  for (int64_t r = 0; r < local[0]; ++r) {
    for (int64_t c = 0; c < local[1]; ++c) {
      const bool exists =
          r < box.extent[0] && c < box.extent[1] && 2 * kBatch + box.start[0] + r < kRows;
      const int64_t from = (box.start[0] + r) * kSequence + box.start[1] + c;
      EXPECT_EQ(its_tokens[r * local[1] + c], exists ? rows.tokens[from] : 0);
      EXPECT_EQ(its_targets[r * local[1] + c], exists ? rows.targets[from] : kIgnoreIndex);
    }
  }
  return absl::OkStatus();
}

// A batch of 3 rows, of which one exists, and 4 columns: uneven parts, empty ones, and splits along
// both dimensions.
TEST(BatchInputsTest, EachRankGetsItsPart) {
  const std::unique_ptr<Dataset> dataset =
      *SyntheticDataset::Create(BigramModel().BatchFields(kSequence), kRows, 5);
  const TokenRows last =
      ReadTokens(*dataset, DataSplit::kEvaluate, {{2 * kBatch, 0}, {1, kSequence}});
  const AxisLayout rows = AxisLayout::Split(0), columns = AxisLayout::Split(1);
  struct Case {
    std::vector<Mesh::Axis> axes;
    std::vector<AxisLayout> layout;
  };
  for (const Case& each :
       {Case{{{"data", 2}}, {AxisLayout::Broadcast()}}, Case{{{"data", 2}}, {rows}},
        Case{{{"data", 4}}, {rows}}, Case{{{"data", 3}}, {columns}},
        Case{{{"data", 2}, {"sequence", 3}}, {rows, columns}}}) {
    const Mesh mesh = *Mesh::Create(each.axes);
    const MeshLayout layout(each.layout);
    const std::vector<absl::Status> statuses =
        comm::RunFake({.ranks = mesh.size()}, [&](comm::World& world) -> absl::Status {
          ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
          absl::Status status = CheckInputs(*dataset, mesh, layout, last, *ranks);
          if (!status.ok()) ranks->Abort(status);
          return status;
        });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace tessera
