#include "core/program/rank_rules.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/ranks/rank_rule_table.h"
#include "core/program/testing/test_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(RankRuleTable, EqualRulesAreEnteredOnce) {
  Program program;
  program.mesh = *Mesh::Create({{"data", 2}});
  const PartRule rows = {{5, 3}, {0, 0}, {5, 3}, MeshLayout({AxisLayout::Split(0)})};
  const PartRule all = {{5, 3}, {0, 0}, {5, 3}, MeshLayout(1)};
  PartRule second = all;  // the second of two micro-batches
  second.start = {3, 0};
  second.extent = {2, 3};
  RankRuleTable table(&program);
  EXPECT_EQ(table.FindOrAdd(rows), PartId(0));
  EXPECT_EQ(table.FindOrAdd(all), kNone);
  EXPECT_EQ(table.FindOrAdd(second), PartId(1));
  EXPECT_EQ(RankRuleTable(&program).FindOrAdd(rows), PartId(0));
  EXPECT_EQ(program.parts.size(), 2);
  EXPECT_EQ(program.parts[PartId(0)].ToString(program.mesh), "data: S(0) of [5, 3]");
  EXPECT_EQ(program.parts[PartId(1)].ToString(program.mesh), "[2, 3] at [3, 0] of [5, 3]");
}

// 8 rows over 2 x 2 ranks.
TEST(PartRule, HoldsElementsWhateverItsLayoutIsCalled) {
  using Axes = std::vector<AxisLayout>;
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 2}});
  const AxisLayout b = AxisLayout::Broadcast(), rows = AxisLayout::Split(0);
  const auto rule = [](const MeshLayout& layout) { return PartRule{{8}, {0}, {8}, layout}; };
  const PartRule by_a = rule(MeshLayout(Axes{rows, b})), by_b = rule(MeshLayout(Axes{b, rows}));
  const PartRule by_4 = rule(MeshLayout(Axes{AxisLayout::Split(0, 4), b}));
  const PartRule by_both = rule(MeshLayout(Axes{AxisLayout::Split(0, 4), AxisLayout::Split(0, 2)}));
  const PartRule b_outside = rule(by_b.layout.With(0, rows));
  EXPECT_TRUE(HoldSameElements(by_a, by_4, mesh));
  EXPECT_FALSE(HoldSameElements(by_a, by_b, mesh));
  EXPECT_FALSE(HoldSameElements(by_both, b_outside, mesh));
  EXPECT_TRUE(HoldsWithin(by_a, by_both, mesh));
  EXPECT_FALSE(HoldsWithin(by_a, b_outside, mesh));
  EXPECT_TRUE(HoldsWithin(by_b, b_outside, mesh));
  EXPECT_FALSE(HoldsWithin(by_both, by_a, mesh));
  const PartRule sum = rule(MeshLayout(Axes{rows, AxisLayout::Partial()}));
  EXPECT_FALSE(HoldsWithin(by_a, sum, mesh));
  EXPECT_FALSE(HoldSameElements(by_a, sum, mesh));
  PartRule second = by_a;  // the second of two micro-batches
  second.start = {4};
  second.extent = {4};
  EXPECT_FALSE(HoldSameElements(by_a, second, mesh));
  EXPECT_TRUE(HoldsWithin(rule(MeshLayout(2)), second, mesh));
}

// Members of 10 and 4 elements in three parts of 5: [0, 5), [5, 10), [10, 14) and padding.
TEST(FlatRule, AMembersElementsOnEachRank) {
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{2, 5}}, {{4}}}, 3));
  const FlatRule first = {group, {0}, 0}, second = {group, {0}, 1};
  const Mesh mesh = *Mesh::Create({{"data", 3}});
  EXPECT_EQ(first.LocalElements(), 5);
  EXPECT_EQ(second.LocalElements(), 4);
  EXPECT_EQ(first.HeldAt(mesh, {1}, 10), (FlatGroup::Range{5, 10}));
  EXPECT_EQ(first.InPartAt(mesh, {1}, 10), (FlatGroup::Range{0, 5}));
  EXPECT_EQ(first.HeldAt(mesh, {2}, 10).size(), 0);
  // The rank has only 7 of the member's 10 elements after the splits over other axes.
  EXPECT_EQ(first.HeldAt(mesh, {1}, 7), (FlatGroup::Range{5, 7}));
  EXPECT_EQ(first.InPartAt(mesh, {1}, 7), (FlatGroup::Range{0, 2}));
  EXPECT_EQ(group->ToString(), "[2, 5], [4]; 3 parts of 5");
}

TEST(FlatRule, TheFirstAxisIsTheOutermostSplit) {
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{12}}}, 6));
  const Mesh mesh = *Mesh::Create({{"host", 2}, {"core", 3}});
  const FlatRule by_core = {group, {1, 0}, 0}, by_host = {group, {0, 1}, 0};
  EXPECT_EQ(by_core.HeldAt(mesh, {1, 0}, 12), (FlatGroup::Range{2, 4}));
  EXPECT_EQ(by_core.HeldAt(mesh, {0, 1}, 12), (FlatGroup::Range{4, 6}));
  EXPECT_EQ(by_host.HeldAt(mesh, {1, 0}, 12), (FlatGroup::Range{6, 8}));
  EXPECT_THAT(CheckFlat({group, {0}, 0}, mesh).message(),
              HasSubstr("a flat group of 6 parts over axes of 2 ranks"));
  EXPECT_THAT(CheckFlat({group, {0, 0}, 0}, mesh).message(), HasSubstr("over axis 0"));
}

TEST(FlatRule, TheLargestRangeMayBeInTheMiddle) {
  // 1, then 10 over four parts of 4: the member has 3, 4, 3 and 0 elements.
  const auto group =
      std::make_shared<const FlatGroup>(*FlatGroup::Create({{{1}}, {{10}}, {{3}}}, 4));
  EXPECT_EQ((FlatRule{group, {0}, 1}).LocalElements(), 4);
}

// y = negate(x), where each rank holds rows of x; and a slice of a bias that all ranks hold.
class RankRulesTest : public ::testing::Test {
 protected:
  RankRulesTest() {
    Graph graph("test");
    graph.SetOutput("y", Negate(graph.Input("x", {DType::kF32, {3, 4}})));
    made_ = std::make_unique<TestProgram>(graph, *backend_);
    Program& program = made_->program;
    program.mesh = *Mesh::Create({{"data", 2}});
    RankRuleTable table(&program);
    const PartId rows =
        table.FindOrAdd(PartRule{{5, 4}, {0, 0}, {5, 4}, MeshLayout({AxisLayout::Split(0)})});
    for (const char* path : {"x", "negate"}) Value(path).part = rows;
  }

  ProgramValue& Value(absl::string_view path) { return made_->program.values[made_->Value(path)]; }

  // Adds a value [5, 4] that all ranks have, and its slice by rows.
  void AddSlice() {
    Program& program = made_->program;
    const ProgramValueId all = made_->AddValue("all", {DType::kF64, {5, 4}});
    const ProgramValueId slice = made_->AddValue("slice", {DType::kF64, {3, 4}});
    program.values[slice].buffer = program.values[all].buffer;
    program.values[slice].within = program.values[slice].sliced_from = all;
    program.values[slice].part = PartId(0);
    program.inputs.push_back({"all", all});
    program.buffers.pop_back();
    program.instructions[InstructionId(0)].inputs[0] = slice;
  }

  std::string Error() {
    const absl::Status status = made_->Finish();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::unique_ptr<TestProgram> made_;
};

TEST_F(RankRulesTest, TheTextNamesPartsAndSlices) {
  AddSlice();
  ASSERT_TRUE(made_->Finish().ok()) << VerifyProgram(made_->program);
  const std::string text = made_->program.ToString();
  EXPECT_THAT(text, HasSubstr("%negate: f64[3, 4] in #2 holds data: S(0) of [5, 4] = "
                              "negate(%slice)"));
}

TEST_F(RankRulesTest, APartOfAnotherShapeIsRefused) {
  made_->program.parts[PartId(0)].global = made_->program.parts[PartId(0)].extent = {9, 4};
  EXPECT_THAT(Error(), HasSubstr("x: is [3, 4], but holds data: S(0) of [9, 4], which is [5, 4] on "
                                 "each rank"));
}

TEST_F(RankRulesTest, APartOfAnotherMeshIsRefused) {
  made_->program.parts[PartId(0)].layout =
      MeshLayout({AxisLayout::Split(0), AxisLayout::Broadcast()});
  EXPECT_THAT(Error(), HasSubstr("the table of parts: a layout over 2 axes on a mesh of 1"));
}

TEST_F(RankRulesTest, ASliceOfAnotherTensorIsRefused) {
  AddSlice();
  Value("all").part = PartId(0);
  EXPECT_THAT(Error(), HasSubstr("all: is [5, 4], but holds data: S(0) of [5, 4]"));
}

TEST_F(RankRulesTest, ASliceIsNotWritten) {
  AddSlice();
  made_->program.instructions[InstructionId(0)].outputs[0] = made_->Value("slice");
  made_->program.outputs[0].value = made_->Value("slice");
  made_->program.instructions[InstructionId(0)].inputs[0] = made_->Value("x");
  EXPECT_THAT(Error(), HasSubstr("negate: writes slice, a slice of all"));
}

TEST_F(RankRulesTest, ASliceWithOtherSplitsThanItsBaseIsRefused) {
  AddSlice();
  Program& program = made_->program;
  // The base is split by columns; its slice would be split by rows only.
  RankRuleTable table(&program);
  Value("all").part =
      table.FindOrAdd(PartRule{{5, 8}, {0, 0}, {5, 8}, MeshLayout({AxisLayout::Split(1)})});
  EXPECT_THAT(Error(), HasSubstr("slice: is no slice of all: data: S(0) of [5, 4] is not within "
                                 "data: S(1) of [5, 8]"));
}

TEST_F(RankRulesTest, AMemberOfAFlatGroupHasItsRange) {
  Program& program = made_->program;
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{5}}, {{2}}}, 2));
  program.flats = {{group, {0}, 0}};
  const ProgramValueId flat = made_->AddValue("flat", {DType::kF64, {3}});
  program.values[flat].flat = FlatId(0);
  program.inputs.push_back({"flat", flat});
  EXPECT_THAT(Error(), HasSubstr("flat: is [3], but up to 4 elements of its flat group"));
}

TEST_F(RankRulesTest, OperandsThatDoNotFitOnSomeRankAreRefused) {
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {3, 4}});
  graph.SetOutput("y", Add(x, graph.Input("b", {DType::kF32, {3, 4}})));
  made_ = std::make_unique<TestProgram>(graph, *backend_);
  Program& program = made_->program;
  program.mesh = *Mesh::Create({{"data", 2}});
  RankRuleTable table(&program);
  const auto rows = [&](int64_t count) {
    return table.FindOrAdd(
        PartRule{{count, 4}, {0, 0}, {count, 4}, MeshLayout({AxisLayout::Split(0)})});
  };
  Value("x").part = Value("add").part = rows(5);
  Value("b").part = rows(6);
  EXPECT_THAT(Error(), HasSubstr("add: on the rank at [1] its operands do not fit: "));
}

TEST_F(RankRulesTest, AnOutputThatIsNotPartialNeedsAllInputs) {
  Graph graph("test");
  graph.SetOutput("y", ReduceSum(graph.Input("x", {DType::kF32, {2, 4}}), {0}));
  made_ = std::make_unique<TestProgram>(graph, *backend_);
  Program& program = made_->program;
  program.mesh = *Mesh::Create({{"data", 3}});
  Value("x").part = RankRuleTable(&program).FindOrAdd(
      PartRule{{4, 4}, {0, 0}, {4, 4}, MeshLayout({AxisLayout::Split(0)})});
  EXPECT_THAT(Error(), HasSubstr("reduce_sum: the rank at [2] holds nothing of an input, but "
                                 "reduce_sum is not partial"));
}

TEST_F(RankRulesTest, AKernelThatTakesRowMajorOperandsGetsNoShortColumns) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend(1);
  Graph graph("test");
  graph.SetOutput("y", Softmax(graph.Input("x", {DType::kF32, {3, 4}}), 0));
  made_ = std::make_unique<TestProgram>(graph, *cpu);
  Program& program = made_->program;
  program.mesh = *Mesh::Create({{"data", 2}});
  Value("x").part = Value("softmax").part = RankRuleTable(&program).FindOrAdd(
      PartRule{{3, 7}, {0, 0}, {3, 7}, MeshLayout({AxisLayout::Split(1)})});
  EXPECT_THAT(Error(), HasSubstr("softmax: kernel 'highway' takes row-major operands; x is not on "
                                 "every rank and needs a packed copy"));
}

TEST_F(RankRulesTest, ACollectiveReadsNoSlice) {
  AddSlice();
  const ProgramValueId sum = made_->AddValue("sum", {DType::kF64, {3, 4}});
  made_->InsertCollective(InstructionId(0),
                          {.elements = 12, .dtype = DType::kF64, .mesh_axes = {"data"}},
                          made_->Value("slice"), sum, "activations");
  made_->program.outputs.push_back({"sum", sum});
  EXPECT_THAT(Error(), HasSubstr("sum: cannot work on slice, which lies elsewhere on each rank; it "
                                 "needs a copy"));
}

// Moves `value` to the address of `where`.
void PutOver(ProgramValueId value, ProgramValueId where, Program& program) {
  program.values[value].buffer = program.values[where].buffer;
  program.values[value].offset = program.values[where].offset;
}

// y = negate(slice of a), z = exp(x). z is written over a row of a that only some rank's slice
// contains.
TEST(PlantedFaults, AWriteOverARowOfAnyRanksSlice) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {4}});
  Tensor a = Square(graph.Input("b", {DType::kF32, {5, 4}}));
  graph.SetOutput("z", Exp(x));
  graph.SetOutput("y", Negate(Slice(a, 0, 0, 3)));
  TestProgram made(graph, *backend);
  Program& program = made.program;
  program.mesh = *Mesh::Create({{"data", 2}});
  RankRuleTable table(&program);
  const PartId rows =
      table.FindOrAdd(PartRule{{5, 4}, {0, 0}, {5, 4}, MeshLayout({AxisLayout::Split(0)})});
  const ProgramValueId slice = program.instructions[made.Find("negate")].inputs[0];
  program.values[slice].sliced_from = made.Value("square");
  program.values[slice].part = program.values[made.Value("negate")].part = rows;
  ASSERT_TRUE(made.Finish().ok()) << VerifyProgram(program);
  PutOver(made.Value("exp"), made.Value("square"), program);
  program.values[made.Value("exp")].offset += 4 * 4 * 8;  // row 4, of rank 1
  program.buffers[program.values[slice].buffer].last = 3;
  const InstructionId at = made.Find("exp");
  EXPECT_THAT(VerifyProgram(program).ToString(),
              HasSubstr(absl::StrCat("instruction 2 (negate): reads ", program.value(slice).path,
                                     ", but instruction ", at.index(),
                                     " (exp) has left exp in its bytes")));
}

// Two gradients in their bucket, and a third value written over the first before it is reduced.
TEST(PlantedFaults, AValueOverwrittenWithinItsBucket) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {4}});
  const Tensor bucket = Concat({Exp(x), Square(x)}, 0);
  graph.SetOutput("other", Negate(x));
  graph.SetOutput("y", Tanh(bucket));
  TestProgram made(graph, *backend);
  Program& program = made.program;
  program.mesh = *Mesh::Create({{"data", 2}});
  const ProgramValueId sum = made.AddValue("sum", {DType::kF64, {8}});
  made.InsertCollective(made.Find("tanh"),
                        {.elements = 8, .dtype = DType::kF64, .mesh_axes = {"data"}},
                        made.Value("concat"), sum, "gradients");
  made.ReplaceReads(made.Value("concat"), sum, made.Find("tanh"));
  ASSERT_TRUE(made.Finish().ok()) << VerifyProgram(program);
  PutOver(made.Value("negate"), made.Value("exp"), program);
  EXPECT_THAT(VerifyProgram(program).ToString(),
              HasSubstr("instruction 3 (sum): reads concat, but instruction 2 (negate) has left "
                        "negate in its bytes"));
}

// Members of one array at the same offset but on different ranks do not overlap. Writing the array
// over a member does.
TEST(PlantedFaults, AnArrayWrittenOverAMemberOfItsFlatGroup) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{4}}, {{4}}}, 2));
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {4}});
  graph.SetOutput("first", Exp(x));
  graph.SetOutput("second", Square(x));
  graph.SetOutput("last", Negate(x));
  TestProgram made(graph, *backend);
  Program& program = made.program;
  program.mesh = *Mesh::Create({{"data", 2}});
  const ProgramValueId array = made.AddValue("array", {DType::kF64, {4}});
  RankRuleTable table(&program);
  for (int member = 0; member < 2; ++member) {
    ProgramValue& value = program.values[made.Value(member == 0 ? "exp" : "square")];
    value.flat = table.FindOrAdd(FlatRule{group, {0}, member});
    value.buffer = program.values[array].buffer;
    value.within = array;
  }
  program.values[made.Value("x")].flat = table.FindOrAdd(FlatRule{group, {0}, 0});
  program.instructions[made.Find("square")].inputs[0] = made.AddValue("x1", {DType::kF64, {4}});
  program.values[made.Value("x1")].flat = table.FindOrAdd(FlatRule{group, {0}, 1});
  program.inputs.push_back({"x1", made.Value("x1")});
  program.values[made.Value("negate")].flat = program.values[made.Value("x")].flat;
  program.outputs.push_back({"array", array});
  ASSERT_TRUE(made.Finish().ok()) << VerifyProgram(program);
  PutOver(made.Value("negate"), made.Value("exp"), program);
  EXPECT_THAT(VerifyProgram(program).ToString(),
              HasSubstr("but instruction 2 (negate) has left negate in its bytes"));
}

// The reference backend, but the scratch memory of `negate` is largest for 2 rows.
class OddWorkspaces : public HostBackend {
 public:
  absl::string_view name() const override { return "odd"; }
  absl::Span<const Kernel* const> kernels() const override { return kernels_; }
  Processor processor() const override { return {"any", 1}; }

 private:
  static absl::Status Nothing(const KernelCall& call) { return absl::OkStatus(); }
  static int64_t Bytes(const KernelRequest& request, const Processor& processor) {
    return request.inputs[0].shape[0] == 2 ? 1000 : 10;
  }
  FunctionKernel negate_{"negate", "odd", Nothing, {.workspace_bytes = Bytes}};
  std::vector<const Kernel*> kernels_ = {&negate_};
};

TEST(Workspaces, AreTheLargestOnAnyRank) {
  OddWorkspaces backend;
  const auto workspace = [&](int64_t rows) {
    Graph graph("test");
    graph.SetOutput("y", Negate(graph.Input("x", {DType::kF32, {3, 4}})));
    TestProgram made(graph, backend);
    made.program.mesh = *Mesh::Create({{"data", 3}});
    const PartId part =
        RankRuleTable(&made.program)
            .FindOrAdd(PartRule{{rows, 4}, {0, 0}, {rows, 4}, MeshLayout({AxisLayout::Split(0)})});
    for (const char* path : {"x", "negate"}) made.program.values[made.Value(path)].part = part;
    EXPECT_TRUE(made.Finish().ok()) << VerifyProgram(made.program);
    return made.program.kernels[KernelId(0)].workspace_bytes;
  };
  EXPECT_EQ(workspace(9), 10);    // 3, 3, 3
  EXPECT_EQ(workspace(8), 1000);  // 3, 3, 2
  EXPECT_EQ(workspace(7), 10);    // 3, 3, 1
}

TEST(PartRule, IsRaggedIfAShortDimensionIsNotTheLeadingOne) {
  const Mesh mesh = *Mesh::Create({{"data", 3}});
  const auto ragged = [&](const Shape& global, int dim) {
    return PartRule{global, Shape(global.size(), 0), global, MeshLayout({AxisLayout::Split(dim)})}
        .Ragged(mesh);
  };
  EXPECT_FALSE(ragged({5, 4}, 0));
  EXPECT_TRUE(ragged({4, 5}, 1));
  EXPECT_FALSE(ragged({4, 6}, 1));
  EXPECT_FALSE(ragged({4, 4}, 1));  // 2, 2 and none
  EXPECT_FALSE(ragged({1, 5}, 1));
}

}  // namespace
}  // namespace tessera
