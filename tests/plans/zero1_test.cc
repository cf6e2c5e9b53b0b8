// Checks groups whose parameters stay full and are gathered after their update (ZeRO-1).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

Plan WithPart(Plan plan, int micro_batches, bool recompute = false) {
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(micro_batches);
  for (int i = 0; recompute && i < 2; ++i) part.add_recompute("blocks." + std::to_string(i));
  return plan;
}

// Returns docs/plans/zero1.textproto with these options for its groups, and these choices.
Plan Zero1(const std::string& options = "", const std::string& choices = "") {
  Plan plan = ReadPlanFile(kZero1);
  const Plan group = ParsePlan(absl::StrCat("stages { group { ", options, " } ", choices, " }"));
  Stage& stage = *plan.mutable_stages(0);
  for (GroupChoice& each : *stage.mutable_group()) each.MergeFrom(group.stages(0).group(0));
  Stage added = group.stages(0);
  added.clear_group();
  stage.MergeFrom(added);
  return plan;
}

TrainingRun Checked(const GptSizes& sizes) {
  TrainingRun run = SmallGpt(sizes);
  run.steps = 4;
  run.check_memory = true;
  return run;
}

TEST(Zero1Test, TrainsAsOneProcess) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    ExpectSame(Checked({.optimizer = optimizer}), Zero1(), {1, 2, 3});
    ExpectSame(Checked({.clip_norm = 0.5, .optimizer = optimizer}), Zero1(), {2, 3});
    GptSizes odd = OddSizes();
    odd.optimizer = optimizer;
    ExpectSame(Checked(odd), Zero1(), {2, 3});
  }
}

TEST(Zero1Test, MicroBatchesAndRecomputation) {
  const TrainingRun run = Checked({.clip_norm = 0.5, .optimizer = "adamw"});
  for (const char* reduce : {"reduce: AFTER_LAST", "reduce: EACH_MICRO_BATCH"}) {
    SCOPED_TRACE(reduce);
    ExpectSame(run, WithPart(Zero1(reduce), 2), {2});
    ExpectSame(run, WithPart(Zero1(reduce), 2, /*recompute=*/true), {2, 4});
  }
}

TEST(Zero1Test, OptionsOfGroups) {
  const TrainingRun run = Checked({.clip_norm = 0.5, .optimizer = "adamw"});
  for (const char* options : {"split_at_rows: true", "split_at_multiples_of: 7"}) {
    SCOPED_TRACE(options);
    ExpectSame(run, Zero1(options), {2, 3});
  }
  ExpectSame(run,
             Zero1("",
                   "pass { bucket_gradients {} } pass { prefetch_gathers {} } "
                   "pass { limit_gathers {} }"),
             {2, 3});
}

// The reference backend computes in double, so the casts round nothing.
TEST(Zero1Test, LowerPrecision) {
  const TrainingRun run = Checked({.clip_norm = 0.5, .optimizer = "adamw"});
  ExpectSame(run, Zero1("", "precision { parameters: BF16 }"), {2, 3});
  ExpectSame(
      run,
      WithPart(Zero1("reduce: EACH_MICRO_BATCH", "precision { parameters: BF16 reduction: BF16 }"),
               2),
      {2});
}

TEST(Zero1Test, GroupsOverTwoAxesAndMembersThatAnotherAxisSplits) {
  const std::string mesh =
      "stages { mesh { name: 'a' size: 2 } mesh { name: 'b' size: 2 } "
      "store { path: 'tokens|targets' layout: 'a: S(0), b: S(0)' } ";
  const char* const kChoices[] = {
      "group { path: 'blocks.*' each: true over: 'a' over: 'b' gather: AFTER_UPDATE } }",
      "group { path: 'blocks|wte|ln_f' over: 'b' over: 'a' gather: AFTER_UPDATE } }",
      "group { path: 'blocks.*' each: true over: 'b' gather: AFTER_UPDATE } }",
      "group { path: 'blocks.0' over: 'b' gather: AFTER_UPDATE } "
      "group { path: 'blocks.1|wte' over: 'a' over: 'b' } pass { prefetch_gathers {} } }",
      "store { path: 'blocks.*.mlp.fc.*' layout: 'b: S(0)' } "
      "store { path: 'blocks.*.mlp.proj.weight' layout: 'b: S(1)' } "
      "group { path: 'blocks.*' each: true over: 'a' gather: AFTER_UPDATE } }",
  };
  for (const char* choices : kChoices) {
    SCOPED_TRACE(choices);
    for (GptSizes sizes : {GptSizes{.clip_norm = 0.1}, OddSizes()}) {
      sizes.optimizer = "adamw";
      ExpectSame(Checked(sizes), ParsePlan(mesh + choices), {4});
    }
  }
}

// Members that are updated in full are put into the array that is gathered.
TEST(Zero1Test, UpdatesOfFullMembers) {
  for (const char* path : {"blocks.0.mlp.fc.*.adamw_update", "ln_f.*.adamw_update",
                           "*.*.adamw_update",  // a group
                           "blocks.*.*.*.adamw_update|blocks.*.*.*.*.adamw_update"}) {
    SCOPED_TRACE(path);
    const std::string choice = absl::StrCat("compute { path: '", path, "' signature: 'data: B' }");
    ExpectSame(Checked({.clip_norm = 0.1, .optimizer = "adamw"}), Zero1("", choice), {2, 3});
  }
}

TEST(Zero1Test, SlicesOfMembers) {
  ExpectSame(Checked({.clip_norm = 0.1, .optimizer = "adamw"}),
             Zero1("",
                   "slice { path: 'blocks.*.mlp.fc.weight' dimension: 0 count: 3 } "
                   "slice { path: 'wte.weight' dimension: 0 count: 2 } "),
             {2, 3});
}

// Returns the states after a run on these ranks, on the CPU backend.
auto StatesOf(const Plan& plan, int ranks) {
  TrainingRun run = Checked({.optimizer = "adamw"});
  run.backend = [] { return MakeCpuBackend(1); };
  const auto result = Train(run, plan, ranks);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->states : decltype(result->states)();
}

TEST(Zero1Test, GivesTheBitsOfDataParallelAlsoIfStatesAreOffloaded) {
  for (const int ranks : {2, 3}) {
    const auto expected = StatesOf(ReadPlanFile(kDataParallel), ranks);
    EXPECT_GT(expected.size(), 4u);
    EXPECT_EQ(StatesOf(Zero1(), ranks), expected) << ranks;
    for (const char* tensors :
         {"tensors: OPTIMIZER_STATE", "tensors: PARAMETERS", "tensors: GRADIENTS", ""}) {
      EXPECT_EQ(StatesOf(Zero1("", absl::StrCat("pass { offload { ", tensors, " } }")), ranks),
                expected)
          << ranks << " " << tensors;
    }
  }
}

// Records the training of a layer by SGD with momentum. The parameters are read again after their
// update if `read_later`.
Graph LayerTraining(bool read_later = false) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  const Initializer initial = Initializer::Constant(1);
  const Tensor a = graph.Parameter("layer.a", {5, 3}, initial);
  const Tensor b = graph.Parameter("layer.b", {5}, initial);
  const Tensor loss = ReduceSum(Square(Add(MatMul(x, a, false, true), b)), {0, 1});
  const auto gradients = RecordGradients(graph, loss, {a, b});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  const Tensor lr = graph.Input("lr", {DType::kF32, {}});
  const Tensor scale = Fill(graph, {DType::kF32, {}}, 1);
  const Tensor finite = AllFinite({loss});
  const Tensor parameters[] = {a, b};
  for (int i = 0; i < 2; ++i) {
    const std::string path = i == 0 ? "layer.a" : "layer.b";
    Scope scope(&graph, path);
    const Tensor momentum = graph.DeclareState("momentum", parameters[i].type(),
                                               Role::kOptimizerState, Initializer::Constant(0));
    const SgdResult result =
        SgdUpdate(parameters[i], (*gradients)[i], momentum, lr, scale, finite, {.momentum = 0.9});
    graph.SetState(path, result.parameter);
    graph.SetState(absl::StrCat(path, ".momentum"), result.momentum);
  }
  graph.SetOutput("loss", loss);
  if (read_later) graph.SetOutput("before", Exp(a));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

Program CompiledLayer(const std::string& group, bool read_later = false) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const auto run = CompileRun({LayerTraining(read_later)},
                              ParsePlan(absl::StrCat("stages { mesh { name: 'data' } "
                                                     "store { path: 'x' layout: 'data: S(0)' } ",
                                                     group, " }")),
                              *backend, 2);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run->FindProgram("train") : Program();
}

// Returns "operation path" of each instruction that updates or communicates.
std::string Updates(const Program& program) {
  std::string lines;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase != Phase::kUpdate && !program.Communicates(instruction)) continue;
    absl::StrAppend(&lines, program.OperationOf(instruction), " ", instruction.path, "\n");
  }
  return lines;
}

// One reduce-scatter, and one gather of what a rank has updated of both parameters.
TEST(Zero1Test, TheProgramOfALayer) {
  const Program program =
      CompiledLayer("group { path: 'layer' over: 'data' gather: AFTER_UPDATE }");
  EXPECT_EQ(Updates(program), R"(all-reduce reduce_sum.all_reduce
reduce-scatter layer.a.grad.group.reduce_scatter
fill fill_1
all_finite all_finite
sgd_update layer.a.sgd_update
sgd_update layer.b.sgd_update
all-gather layer.a.group.all_gather
copy layer.a.kept
copy layer.b.kept
)");
  const std::string text = program.ToString();
  for (const char* line : {
           "flat group 0: [5, 3], [5]; 2 parts of 10\n",
           // Parameters in full, and a part of their momentum.
           "parameter %layer.a: f32[5, 3] in #0 leaves %layer.a.kept\n",
           "parameter %layer.b: f32[5] in #1 leaves %layer.b.kept\n",
           "buffer #2 layer.a.momentum.group 40 bytes",
           "reduce-scatter of 20 f32 (sum) over data(%layer.a.grad.group) on gradients",
           "all-gather of 20 f32 over data(%layer.a.group) on parameters",
           "%layer.b.kept: f32[5] in #1 = copy(%layer.b.sgd_update.gathered)",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// Gathered parameters are copied into their states when the next group is gathered, but not before
// the last op that reads the previous ones.
TEST(Zero1Test, PreviousParametersMayBeReadLater) {
  const std::string groups =
      "group { path: 'layer.*' each: true over: 'data' gather: AFTER_UPDATE }";
  EXPECT_THAT(Updates(CompiledLayer(groups)), EndsWith(R"(all-gather layer.b.group.all_gather
sgd_update layer.a.sgd_update
all-gather layer.a.group.all_gather
copy layer.a.kept
copy layer.b.kept
)"));
  EXPECT_THAT(Updates(CompiledLayer(groups, /*read_later=*/true)), EndsWith(R"(exp exp
all-gather exp.part.all_gather
sgd_update layer.b.sgd_update
all-gather layer.b.group.all_gather
sgd_update layer.a.sgd_update
all-gather layer.a.group.all_gather
copy layer.a.kept
copy layer.b.kept
)"));
}

}  // namespace
}  // namespace tessera
