// Programs whose values are split unevenly, with empty parts on some ranks. Memory holds NaN before
// a step, so that reading padding gives a wrong result.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "core/runtime/testing/parts.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kColumns = 4, kOut = 3;

INSTANTIATE_TEST_SUITE_P(Backends, RankPartsTest, ::testing::Values("cpu", "reference"),
                         [](const auto& info) { return info.param; });

// y = x w^T, its sum over rows and its maximum, with the rows of x split over 2 or 3 ranks. On 3
// ranks, 5 rows are split into 2, 2 and 1; 4 rows into 2, 2 and 0; 2 rows into 1, 1 and 0.
TEST_P(RankPartsTest, RowsThatAreUnevenOrMissing) {
  for (const int ranks : {2, 3}) {
    for (const int64_t rows : {2, 4, 5}) {
      OnRanks(ranks, [&](comm::World& rank) -> absl::Status {
        const int64_t padded = (rows + ranks - 1) / ranks;
        Graph graph("test");
        Tensor x = graph.Input("x", {DType::kF32, {padded, kColumns}});
        Tensor w = graph.Input("w", {DType::kF32, {kOut, kColumns}});
        Tensor y = MatMul(x, w, false, true);
        graph.SetOutput("y", y);
        graph.SetOutput("sum", ReduceSum(y, {0}));
        graph.SetOutput("max", ReduceMax(y, {0}));
        RankRun run(Make());
        PartsProgram made(graph, *run.backend, ranks);
        made.Hold("x", {rows, kColumns}, S(0));
        made.Hold("matmul", {rows, kOut}, S(0));
        made.Hold("reduce_sum", {kOut}, P());
        made.Hold("reduce_max", {kOut}, P(AxisLayout::Reduction::kMax));
        made.Reduce("reduce_sum", "all_sum", Reduction::kSum);
        made.Reduce("reduce_max", "all_max", Reduction::kMax);
        RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
        const int64_t first = std::min(rank.rank() * padded, rows);
        const auto at = [&](int64_t row, int64_t column) {
          double sum = 0;
          for (int64_t c = 0; c < kColumns; ++c) {
            sum += Element(row * kColumns + c) * Element(100 + column * kColumns + c);
          }
          return sum;
        };
        const auto set = [&](Engine& engine) {
          RETURN_IF_ERROR(
              run.Set(engine, "x", [&](int64_t i) { return Element(first * kColumns + i); }));
          return run.Set(engine, "w", [](int64_t i) { return Element(100 + i); });
        };
        RETURN_IF_ERROR(set(*run.engine));
        RETURN_IF_ERROR(run.engine->Run("test"));
        if (run.Elements(made.program.FindOutput("y")) != kOut * std::min(padded, rows - first)) {
          return absl::InternalError("y has another size");
        }
        RETURN_IF_ERROR(run.Expect(
            "y", [&](int64_t i) { return at(first + i / kOut, i % kOut); }, tolerance()));
        const auto all = [&](int64_t column, bool max) {
          double result = max ? -std::numeric_limits<double>::infinity() : 0;
          for (int64_t r = 0; r < rows; ++r) {
            result = max ? std::max(result, at(r, column)) : result + at(r, column);
          }
          return result;
        };
        RETURN_IF_ERROR(run.Expect(
            "all_sum", [&](int64_t i) { return all(i, false); }, tolerance()));
        RETURN_IF_ERROR(run.Expect(
            "all_max", [&](int64_t i) { return all(i, true); }, tolerance()));
        RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
        run.engine.reset();
        return rank.Leave();
      });
    }
  }
}

// A rank's columns of a matrix have the padded row stride. Elementwise kernels read them with that
// stride, and a copy writes them row-major.
TEST_P(RankPartsTest, ColumnsAreAtThePaddedStrides) {
  constexpr int64_t kRows = 3, kAll = 7;
  OnRanks(3, [&](comm::World& rank) -> absl::Status {  // 3, 3 and 1
    Graph graph("test");
    Tensor x = graph.Input("x", {DType::kF32, {kRows, 3}});
    graph.SetOutput("y", Copy(x));
    RankRun run(Make());
    PartsProgram made(graph, *run.backend, 3);
    made.Hold("x", {kRows, kAll}, S(1));
    made.Hold("copy", {kRows, kAll}, S(1));
    RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
    const int64_t count = rank.rank() < 2 ? 3 : 1;
    const auto at = [&](int64_t i) {
      return Element(i / count * kAll + rank.rank() * 3 + i % count);
    };
    const auto set = [&](Engine& engine) { return run.Set(engine, "x", at); };
    RETURN_IF_ERROR(set(*run.engine));
    RETURN_IF_ERROR(run.engine->Run("test"));
    RETURN_IF_ERROR(run.Expect("y", at, 1e-6));
    RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
    run.engine.reset();
    return rank.Leave();
  });
}

// A kernel that takes no strides works on a packed copy of short columns.
TEST_P(RankPartsTest, PackedColumnsAreRowMajorOnEveryRank) {
  constexpr int64_t kRows = 3, kAll = 7;
  OnRanks(3, [&](comm::World& rank) -> absl::Status {  // 3, 3 and 1
    Graph graph("test");
    Tensor x = graph.Input("x", {DType::kF32, {kRows, 3}});
    graph.SetOutput("y", Copy(Softmax(Copy(x), 0)));
    RankRun run(Make());
    PartsProgram made(graph, *run.backend, 3);
    for (const char* path : {"x", "copy", "softmax", "copy_1"}) {
      made.Hold(path, {kRows, kAll}, S(1));
    }
    for (const char* path : {"copy", "softmax"}) {
      made.program.values[made.Value(path)].packed = true;
    }
    RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
    const int64_t count = rank.rank() < 2 ? 3 : 1;
    const auto at = [&](int64_t row, int64_t column) {
      return Element(row * kAll + rank.rank() * 3 + column);
    };
    const auto set = [&](Engine& engine) {
      return run.Set(engine, "x", [&](int64_t i) { return at(i / count, i % count); });
    };
    RETURN_IF_ERROR(set(*run.engine));
    RETURN_IF_ERROR(run.engine->Run("test"));
    RETURN_IF_ERROR(run.Expect(
        "y",
        [&](int64_t i) {
          double sum = 0;
          for (int64_t r = 0; r < kRows; ++r) sum += std::exp(at(r, i % count));
          return std::exp(at(i / count, i % count)) / sum;
        },
        tolerance()));
    RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
    run.engine.reset();
    return rank.Leave();
  });
}

// A table and a head are split by rows: each rank ignores ids and targets of other ranks' rows. On
// three ranks, the last one has none of the 4 rows.
TEST_P(RankPartsTest, KernelsKnowTheRowsOfTheirTable) {
  constexpr int64_t kWords = 4, kTokens = 6;
  const std::vector<int32_t> ids = {3, 0, 1, 1, 2, 3};
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, [&](comm::World& rank) -> absl::Status {
      const int64_t padded = (kWords + ranks - 1) / ranks;
      Graph graph("test");
      Tensor table = graph.Input("table", {DType::kF32, {padded, kColumns}});
      Tensor tokens = graph.Input("ids", {DType::kI32, {kTokens}});
      Tensor x = graph.Input("x", {DType::kF32, {kTokens, kColumns}});
      graph.SetOutput("part", Embedding(table, tokens));
      const RowLogits logits = LinearLogSumExp(x, table, tokens);
      graph.SetOutput("lse", logits.lse);
      graph.SetOutput("target", logits.target_logit);
      RankRun run(Make());
      PartsProgram made(graph, *run.backend, ranks);
      made.Hold("table", {kWords, kColumns}, S(0));
      made.Hold("embedding", {kTokens, kColumns}, P());
      made.Hold("linear_log_sum_exp.lse", {kTokens}, P(AxisLayout::Reduction::kLogSumExp));
      made.Hold("linear_log_sum_exp.target_logit", {kTokens}, P());
      made.Reduce("embedding", "rows", Reduction::kSum);
      made.Reduce("linear_log_sum_exp.target_logit", "targets", Reduction::kSum);
      RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
      const int64_t first = std::min(rank.rank() * padded, kWords);
      const int64_t last = std::min(first + padded, kWords);
      const auto set = [&](Engine& engine) {
        RETURN_IF_ERROR(
            run.Set(engine, "table", [&](int64_t i) { return Element(first * kColumns + i); }));
        RETURN_IF_ERROR(engine.SetInput("test", "ids", ids));
        return run.Set(engine, "x", [](int64_t i) { return Element(50 + i); });
      };
      RETURN_IF_ERROR(set(*run.engine));
      RETURN_IF_ERROR(run.engine->Run("test"));
      const auto logit = [&](int64_t token, int64_t word) {
        double sum = 0;
        for (int64_t c = 0; c < kColumns; ++c) {
          sum += Element(50 + token * kColumns + c) * Element(word * kColumns + c);
        }
        return sum;
      };
      RETURN_IF_ERROR(run.Expect(
          "rows", [&](int64_t i) { return Element(ids[i / kColumns] * kColumns + i % kColumns); },
          tolerance()));
      RETURN_IF_ERROR(run.Expect(
          "targets", [&](int64_t i) { return logit(i, ids[i]); }, tolerance()));
      RETURN_IF_ERROR(run.Expect(
          "lse",
          [&](int64_t i) {
            double sum = 0;
            for (int64_t word = first; word < last; ++word) sum += std::exp(logit(i, word));
            return std::log(sum);
          },
          tolerance()));
      RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
      run.engine.reset();
      return rank.Leave();
    });
  }
}

// Rows are split over one axis and then over another, columns over a third. Each rank computes the
// norm of its own elements, which may be none, and the sum over all ranks is that of the matrix.
TEST_P(RankPartsTest, NestedSplitsOverThreeAxes) {
  constexpr int64_t kRows = 5, kAll = 5;  // two ranks have no rows
  OnRanks(8, [&](comm::World& rank) -> absl::Status {
    const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 2}, {"c", 2}});
    const MeshLayout layout({S(0), S(0), S(1)});
    const Shape global = {kRows, kAll};
    const PartRule part = {global, {0, 0}, global, layout};
    Graph graph("test");
    Tensor x = graph.Input("x", {DType::kF32, part.LocalShape(mesh)});
    graph.SetOutput("norm", SumSquares(Copy(x)));
    RankRun run(Make());
    PartsProgram made(graph, *run.backend, 8);
    Program& program = made.program;
    program.mesh = mesh;
    RankRuleTable table(&program);
    for (const char* path : {"x", "copy"}) {
      program.values[made.Value(path)].part = table.FindOrAdd(part);
    }
    program.values[made.Value("copy")].packed = true;
    program.values[made.Value("sum_squares")].part =
        table.FindOrAdd(PartRule{{}, {}, {}, MeshLayout({P(), P(), P()})});
    const ProgramValueId sum = made.AddValue("sum", {made.dtype, {}});
    made.InsertCollective(program.instructions.end_id(),
                          {.elements = 1, .dtype = made.dtype, .mesh_axes = {"a", "b", "c"}},
                          made.Value("sum_squares"), sum, "communication");
    program.outputs.push_back({"sum", sum});
    RETURN_IF_ERROR(run.Prepare(rank, mesh, made));
    const Box box = part.At(mesh, mesh.CoordinatesOf(rank.rank()));
    const auto at = [&](int64_t i) {
      return Element((box.start[0] + i / box.extent[1]) * kAll + box.start[1] + i % box.extent[1]);
    };
    const auto set = [&](Engine& engine) { return run.Set(engine, "x", at); };
    RETURN_IF_ERROR(set(*run.engine));
    RETURN_IF_ERROR(run.engine->Run("test"));
    const auto squares = [](int64_t count, const std::function<double(int64_t)>& value) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += value(i) * value(i);
      return sum;
    };
    RETURN_IF_ERROR(run.Expect(
        "norm", [&](int64_t) { return squares(NumElements(box.extent), at); }, tolerance()));
    RETURN_IF_ERROR(run.Expect(
        "sum", [&](int64_t) { return squares(kRows * kAll, Element); }, tolerance()));
    RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
    run.engine.reset();
    return rank.Leave();
  });
}

}  // namespace
}  // namespace tessera
