// The checks of a Program that a plugin's pass returns.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EditedProgram : public PluginPasses {
 public:
  explicit EditedProgram(std::function<void(Program&)> edit) : edit_(std::move(edit)) {}
  absl::StatusOr<Program> Run(const PassChoice::PluginPass&, const Program& program) override {
    Program edited = program;
    edit_(edited);
    return edited;
  }

 private:
  const std::function<void(Program&)> edit_;
};

// Compiles a layer whose batch is split over two ranks, with a pass that edits its Program.
absl::Status Compile(std::function<void(Program&)> edit) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, /*batch_dim=*/0);
  const Tensor w = graph.Parameter("w", {3, 5}, Initializer::Constant(1));
  graph.SetOutput("y", ReduceSum(MatMul(x, w), {0, 1}, false));
  graph.SetState("w", Add(w, w));
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  Plan plan;
  Stage& stage = *plan.add_stages();
  stage.add_mesh()->set_name("data");
  StoreChoice& rows = *stage.add_store();
  rows.set_path("x");
  rows.set_layout("data: S(0)");
  PassChoice::PluginPass& pass = *stage.add_pass()->mutable_plugin();
  pass.set_name("test");
  pass.set_pass("edit");
  EditedProgram passes(std::move(edit));
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  return CompileRun(graphs, plan, *backend, /*ranks=*/2, &passes).status();
}

std::string ErrorOf(std::function<void(Program&)> edit) {
  const absl::Status status = Compile(std::move(edit));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

ProgramValueId OutputOf(const Program& program, InstructionId instruction) {
  return program.instructions[instruction].outputs[0];
}

TEST(PluginPassesTest, AProgramMayStayAsItIs) {
  const absl::Status status = Compile([](Program&) {});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(PluginPassesTest, AnUnusedValueNeedsNoBuffer) {
  const absl::Status status = Compile([](Program& program) {
    program.values.push_back(program.values[OutputOf(program, InstructionId(0))]);
    program.values.back().path = "unused";
    program.values.back().buffer = kNone;
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(PluginPassesTest, AValueLiesInTheBufferOfItsTensor) {
  const std::string error = ErrorOf([](Program& program) {
    const ProgramValueId tensor = OutputOf(program, InstructionId(0));
    program.values.push_back(program.values[tensor]);
    program.values.back().path = "elsewhere";
    program.values.back().within = tensor;
    program.values.back().buffer =
        program.buffers.push_back(program.buffers[program.values[tensor].buffer]);
  });
  EXPECT_THAT(error,
              AllOf(HasSubstr("pass 'edit' of strategy test"), HasSubstr("elsewhere: lies within "),
                    HasSubstr("which is no tensor of its buffer")));
}

TEST(PluginPassesTest, WorkspacesComeLater) {
  EXPECT_THAT(ErrorOf([](Program& program) {
                program.instructions[InstructionId(0)].workspace = BufferId(0);
              }),
              HasSubstr("has a workspace already"));
}

TEST(PluginPassesTest, InstructionsStayBehindWhatTheyRead) {
  EXPECT_THAT(ErrorOf([](Program& program) {
                std::swap(program.instructions.front(), program.instructions.back());
              }),
              HasSubstr("which nothing has written before"));
}

}  // namespace
}  // namespace tessera
