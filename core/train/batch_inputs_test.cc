#include "core/train/batch_inputs.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/program/compile.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/programs.h"
#include "core/train/testing_bigram.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr BatchShape kShape = {3, 4};

// A Program that holds the rows and columns of a rank of a mesh, of the batch of the evaluation.
CompiledRun Compiled(const Backend& backend, const Mesh& mesh, const MeshLayout& layout) {
  RunConfig config = BigramConfig();
  const Shape global = {kShape.batch, kShape.sequence};
  const PartRule part = {global, {0, 0}, global, layout};
  const Shape local = part.LocalShape(mesh);
  config.set_batch(local[0]);
  config.set_sequence(local[1]);
  auto graphs = RecordRun(BigramModel(), config, RunParts::kEvaluate);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  auto run = CompileRun(*std::move(graphs), Plan(), backend);
  EXPECT_TRUE(run.ok()) << run.status();
  Program& program = run->programs[0];
  program.mesh = mesh;
  program.parts.push_back(part);
  for (const char* name : {"tokens", "targets"}) {
    program.values[program.FindInput(name)].part = 0;
  }
  return *std::move(run);
}

std::vector<double> InputOf(Engine& engine, absl::string_view name) {
  Executor& executor = engine.executor(kEvaluate);
  const Program& program = executor.program();
  const int32_t value = program.FindInput(name);
  std::vector<int32_t> values(NumElements(program.value(value).type.shape));
  EXPECT_TRUE(engine
                  .ReadArena(program.AddressOf(value),
                             absl::MakeSpan(reinterpret_cast<char*>(values.data()),
                                            values.size() * sizeof(int32_t)))
                  .ok());
  return std::vector<double>(values.begin(), values.end());
}

// Of 3 rows and 4 columns: uneven parts, an empty one, and splits along both dimensions.
TEST(BatchInputsTest, EachRankGetsItsPart) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::unique_ptr<Dataset> dataset = *SyntheticDataset::Create(BigramModel::kVocabulary, 5);
  std::vector<int32_t> tokens(12), targets(12);
  ASSERT_TRUE(dataset
                  ->Read(DataSplit::kEvaluate, 2, kShape, {0, 3}, {0, 4}, absl::MakeSpan(tokens),
                         absl::MakeSpan(targets))
                  .ok());
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
    for (int rank = 0; rank < mesh.size(); ++rank) {
      EngineOptions options;
      options.rank.rank = rank;
      auto engine = Engine::Create(Compiled(*backend, mesh, layout), backend.get(), options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      BatchInputs inputs(dataset.get(), kShape);
      const absl::Status status = inputs.Set(**engine, kEvaluate, DataSplit::kEvaluate, 2);
      ASSERT_TRUE(status.ok()) << status;
      const Shape global = {3, 4};
      const Box box = BoxOf(layout, global, mesh, mesh.CoordinatesOf(rank));
      const Shape local = LocalShape(layout, global, mesh);
      const std::vector<double> its_tokens = InputOf(**engine, "tokens");
      const std::vector<double> its_targets = InputOf(**engine, "targets");
      for (int64_t r = 0; r < local[0]; ++r) {
        for (int64_t c = 0; c < local[1]; ++c) {
          const bool inside = r < box.extent[0] && c < box.extent[1];
          const int64_t from = (box.start[0] + r) * 4 + box.start[1] + c;
          EXPECT_EQ(its_tokens[r * local[1] + c], inside ? tokens[from] : 0);
          EXPECT_EQ(its_targets[r * local[1] + c], inside ? targets[from] : kIgnoredTarget);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
