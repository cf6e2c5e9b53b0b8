// Programs whose values are each rank's slices of other values, slices with zeros elsewhere, and
// members of flat groups. Memory holds NaN before a step.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/ops/operator_list.h"
#include "core/runtime/testing/parts.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kColumns = 4;

INSTANTIATE_TEST_SUITE_P(Backends, RankPartsTest, ::testing::Values("cpu", "reference"),
                         [](const auto& info) { return info.param; });

// Each rank has all of x and works on its own rows. w is a transposed view of a slice of another
// value.
TEST_P(RankPartsTest, SlicesBeginWhereTheirPartDoes) {
  constexpr int64_t kRows = 5;
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, [&](comm::World& rank) -> absl::Status {
      const int64_t padded = (kRows + ranks - 1) / ranks;
      Graph graph("test");
      Tensor x = graph.Input("x", {DType::kF32, {kRows, kColumns}});
      Tensor local = graph.Input("local", {DType::kF32, {padded, kColumns}});
      graph.SetOutput("y", Copy(Transpose(local, {1, 0})));
      graph.SetOutput("z", Exp(local));
      graph.SetOutput("all", Negate(x));
      RankRun run(Make());
      PartsProgram made(graph, *run.backend, ranks);
      const ProgramValueId slice = made.AddSlice("slice", made.Value("x"), S(0));
      made.ReplaceReads(made.Value("local"), slice, InstructionId(0));
      ProgramValue& view = made.program.values[made.Value("transpose")];
      view.within = made.Value("x");
      view.buffer = made.program.value(slice).buffer;
      view.sliced_from = slice;
      made.Hold("transpose", {kColumns, kRows}, S(1));
      made.Hold("copy", {kColumns, kRows}, S(1));
      made.Hold("exp", {kRows, kColumns}, S(0));
      made.program.inputs.erase(made.program.inputs.begin() + 1);
      RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
      const int64_t first = std::min(rank.rank() * padded, kRows);
      const int64_t count = std::min(padded, kRows - first);
      const auto set = [&](Engine& engine) { return run.Set(engine, "x", Element); };
      RETURN_IF_ERROR(set(*run.engine));
      RETURN_IF_ERROR(run.engine->Run("test"));
      RETURN_IF_ERROR(run.Expect(
          "y", [&](int64_t i) { return Element((first + i % count) * kColumns + i / count); },
          tolerance()));
      RETURN_IF_ERROR(run.Expect(
          "z", [&](int64_t i) { return std::exp(Element(first * kColumns + i)); }, tolerance()));
      RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
      run.engine.reset();
      return rank.Leave();
    });
  }
}

// Sums over ranks, of parts with zeros elsewhere, and of values that rank 0 alone contributes.
TEST_P(RankPartsTest, ZerosElsewhereMakeSumsOfParts) {
  constexpr int64_t kRows = 4;
  for (const int ranks : {2, 3}) {  // the third of three ranks has no rows
    OnRanks(ranks, [&](comm::World& rank) -> absl::Status {
      const int64_t padded = (kRows + ranks - 1) / ranks;
      Graph graph("test");
      Tensor x = graph.Input("x", {DType::kF32, {padded, kColumns}});
      Tensor b = graph.Input("b", {DType::kF32, {kRows, kColumns}});
      const Attributes shape = {{"shape", std::vector<int64_t>{kRows, kColumns}}};
      const Operator& op = *FindOperator("zero_elsewhere");
      graph.SetOutput("of_split", graph.Record1(op, {x}, shape));
      graph.SetOutput("of_broadcast", graph.Record1(op, {b}, shape));
      RankRun run(Make());
      PartsProgram made(graph, *run.backend, ranks);
      made.Hold("x", {kRows, kColumns}, S(0));
      made.Hold("zero_elsewhere", {kRows, kColumns}, P());
      made.Hold("zero_elsewhere_1", {kRows, kColumns}, P());
      const ProgramValueId alone = made.AddSlice("alone", made.Value("b"), S(0, kRows));
      made.program.instructions[made.Find("zero_elsewhere_1")].inputs = {alone};
      made.Reduce("zero_elsewhere", "sum", Reduction::kSum);
      made.Reduce("zero_elsewhere_1", "once", Reduction::kSum);
      RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
      const auto set = [&](Engine& engine) {
        RETURN_IF_ERROR(run.Set(
            engine, "x", [&](int64_t i) { return Element(rank.rank() * padded * kColumns + i); }));
        return run.Set(engine, "b", Element);
      };
      RETURN_IF_ERROR(set(*run.engine));
      RETURN_IF_ERROR(run.engine->Run("test"));
      RETURN_IF_ERROR(run.Expect("sum", Element, tolerance()));
      RETURN_IF_ERROR(run.Expect("once", Element, tolerance()));
      RETURN_IF_ERROR(CheckMemory(*run.engine, "test", set));
      run.engine.reset();
      return rank.Leave();
    });
  }
}

// Returns the SGD update of a flat group of two members: "gradients" is reduced to parts, each rank
// updates its range of each member, and the result is "gathered".
PartsProgram FlatUpdate(const std::shared_ptr<const FlatGroup>& group, int ranks,
                        const Backend& backend) {
  Graph graph("test");
  Tensor lr = graph.Input("lr", {DType::kF32, {}});
  Tensor predicate = graph.Input("predicate", {DType::kU8, {}});
  for (int member = 0; member < 2; ++member) {
    const int64_t held = FlatRule{group, {0}, member}.LocalElements();
    Tensor p = graph.Input(absl::StrCat("p", member), {DType::kF32, {held}});
    Tensor g = graph.Input(absl::StrCat("g", member), {DType::kF32, {held}});
    graph.SetOutput(absl::StrCat("new", member),
                    SgdUpdate(p, g, {}, lr, lr, predicate, {}).parameter);
  }
  const int64_t part = group->part(), all = group->elements();
  graph.SetOutput("x", Copy(graph.Input("gradients", {DType::kF32, {all}})));
  PartsProgram made(graph, backend, ranks);
  Program& program = made.program;
  // The arrays: parameters before and after, gradients.
  const TensorType part_type = {made.dtype, {part}}, all_type = {made.dtype, {all}};
  const ProgramValueId stored = made.AddValue("stored", part_type);
  const ProgramValueId reduced = made.AddValue("reduced", part_type);
  const ProgramValueId updated = made.AddValue("updated", part_type);
  const ProgramValueId gathered = made.AddValue("gathered", all_type);
  RankRuleTable table(&program);
  const auto lie_within = [&](absl::string_view path, ProgramValueId array, int member) {
    ProgramValue& value = program.values[made.Value(path)];
    value.buffer = program.values[array].buffer;
    value.within = array;
    value.flat = table.FindOrAdd(FlatRule{group, {0}, member});
  };
  for (int member = 0; member < 2; ++member) {
    lie_within(absl::StrCat("p", member), stored, member);
    lie_within(absl::StrCat("g", member), reduced, member);
    const Instruction& update = program.instructions[InstructionId(member)];
    lie_within(program.value(update.outputs[0]).path, updated, member);
  }
  const ProgramValueId gradients = made.Value("gradients");
  program.inputs = {{"stored", stored},
                    {"gradients", gradients},
                    {"lr", made.Value("lr")},
                    {"predicate", made.Value("predicate")}};
  program.outputs.push_back({"gathered", gathered});
  const auto communicate = [&](CollectiveOperation operation, InstructionId position,
                               ProgramValueId from, ProgramValueId to, const char* stream) {
    made.InsertCollective(
        position,
        {.operation = operation, .elements = all, .dtype = made.dtype, .mesh_axes = {"data"}}, from,
        to, stream);
  };
  communicate(CollectiveOperation::kAllGather, program.instructions.end_id(), updated, gathered,
              "parameters");
  communicate(CollectiveOperation::kReduceScatter, InstructionId(0), gradients, reduced,
              "gradients");
  return made;
}

// Members of 7 and 3 elements over 2 and 3 ranks.
TEST_P(RankPartsTest, MembersOfAFlatGroupAreUpdatedByRange) {
  constexpr int64_t kFirst = 7, kSecond = 3;
  for (const int ranks : {2, 3}) {
    OnRanks(ranks, [&](comm::World& rank) -> absl::Status {
      const auto group =
          std::make_shared<const FlatGroup>(*FlatGroup::Create({{{kFirst}}, {{kSecond}}}, ranks));
      RankRun run(Make());
      PartsProgram made = FlatUpdate(group, ranks, *run.backend);
      RETURN_IF_ERROR(run.Prepare(rank, made.program.mesh, made));
      const auto set = [&](Engine& engine) {
        RETURN_IF_ERROR(run.Set(
            engine, "stored", [&](int64_t i) { return Element(rank.rank() * group->part() + i); }));
        RETURN_IF_ERROR(run.Set(engine, "gradients",
                                [&](int64_t i) { return Element(30 + i) * (1 + rank.rank()); }));
        RETURN_IF_ERROR(run.Set(engine, "lr", [](int64_t) { return 0.5; }));
        return engine.SetInput("test", "predicate", std::vector<int32_t>{1});
      };
      RETURN_IF_ERROR(set(*run.engine));
      RETURN_IF_ERROR(run.engine->Run("test"));
      // 0.5 is also the gradient's scale.
      const double share = 0.25 * ranks * (ranks + 1) / 2;
      const auto expected = [&](int64_t i) { return Element(i) - share * Element(30 + i); };
      std::vector<double> values(group->elements());
      RETURN_IF_ERROR(run.engine->ReadOutput("test", "gathered", absl::MakeSpan(values)));
      values.resize(kFirst + kSecond);  // padding comes last
      RETURN_IF_ERROR(ExpectValues("gathered", values, expected, tolerance()));
      for (int member = 0; member < 2; ++member) {
        const int64_t begin =
            group->InGathered(member).begin + group->Held(member, rank.rank()).begin;
        RETURN_IF_ERROR(run.Expect(
            absl::StrCat("new", member), [&](int64_t i) { return expected(begin + i); },
            tolerance()));
      }
      run.engine.reset();
      return rank.Leave();
    });
  }
}

}  // namespace
}  // namespace tessera
