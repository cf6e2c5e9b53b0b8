// Checks the messages of every model's Programs: reading returns the Program that was written, and
// a changed message is refused or is another valid Program.
#include "core/program/proto/program_proto.h"

#include <memory>
#include <random>
#include <string>

#include "core/compile/compile.h"
#include "core/ops/ops.h"
#include "core/program/verify/verify.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/small_models.h"
#include "tools/backends/backends.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

CompiledRun Compile(const std::string& model, const Backend& backend, int64_t micro_batches) {
  RunConfig config;
  config.set_steps(10);
  config.set_batch(4);
  config.set_sequence(12);
  config.set_micro_batches(micro_batches);
  config.set_recompute(micro_batches > 1 ? "block" : "none");
  config.mutable_sample()->set_tokens(5);
  OptimizerConfig& optimizer = *config.mutable_optimizer();
  optimizer.set_kind("adamw");
  optimizer.set_lr(1e-3);
  optimizer.set_schedule("constant");
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_eps(1e-8);
  optimizer.set_clip_norm(1);
  const std::unique_ptr<Model> made = MakeModel(model);
  auto graphs = RecordRun(*made, config, RunGraphs::kAll);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  Plan plan = PlanOfConfig(config, *graphs);
  if (micro_batches > 1) {
    SliceChoice& slice = *plan.mutable_stages(0)->add_slice();
    slice.set_path("head.weight|wte.weight");
    slice.set_count(3);
  }
  auto run = CompileRun(*std::move(graphs), plan, backend);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

TEST(ProgramProto, EveryProgramOfEveryModelIsReadAsItWasWritten) {
  for (const std::string device : {"cpu", "reference"}) {
    const std::unique_ptr<Backend> backend = *MakeBackend(device, 2);
    for (const std::string model : {"mlp", "gpt_tied", "gpt_untied", "gpt_dropout"}) {
      for (const int64_t micro_batches : {1, 2}) {
        const CompiledRun run = Compile(model, *backend, micro_batches);
        for (const Program& program : run.programs) {
          const std::string bytes = ToProto(program).SerializeAsString();
          ProgramProto message;
          ASSERT_TRUE(message.ParseFromString(bytes));
          const absl::StatusOr<Program> read = FromProto(message, *backend);
          ASSERT_TRUE(read.ok()) << model << ": " << read.status();
          EXPECT_EQ(read->ToString(), program.ToString()) << model;
          EXPECT_EQ(ToProto(*read).SerializeAsString(), bytes) << model;
          for (const ProgramStateId i : program.states.ids()) {
            EXPECT_EQ(read->states[i].origin, program.states[i].origin);
          }
          EXPECT_TRUE(VerifyProgram(*read).ok()) << VerifyProgram(*read);
        }
      }
    }
  }
}

// Checks the rules for differences between ranks, which no Program of a single process has.
TEST(ProgramProto, RulesForRanksAreReadAsTheyWereWritten) {
  const std::unique_ptr<Backend> backend = *MakeBackend("reference", 1);
  Program program = *Compile("mlp", *backend, 1).FindProgram(kTrain);
  program.mesh = *Mesh::Create({{"data", 2}, {"model", 3}});
  const auto split = [](int dim, int64_t unit) { return AxisLayout::Split(dim, unit); };
  program.parts = {{{61, 12}, {0, 0}, {61, 12}, MeshLayout({split(0, 1), split(1, 4)})},
                   {{8, 3}, {4, 0}, {4, 3}, MeshLayout({AxisLayout::Broadcast(), split(0, 1)})}};
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{4, 5}}, {{7}, 2}}, 3));
  const auto other = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{9}}}, 2));
  program.flats = {{group, {1}, 1}, {other, {0}, 0}, {group, {1}, 0}};
  program.values[ProgramValueId(1)].part = PartId(1);
  program.values[ProgramValueId(2)].sliced_from = ProgramValueId(1);
  program.values[ProgramValueId(3)].flat = FlatId(2);
  program.values[ProgramValueId(4)].packed = true;
  const std::string bytes = ToProto(program).SerializeAsString();
  ProgramProto message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  const absl::StatusOr<Program> read = FromProto(message, *backend);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToString(), program.ToString());
  EXPECT_EQ(ToProto(*read).SerializeAsString(), bytes);
  EXPECT_EQ(read->parts, program.parts);
  EXPECT_EQ(*read->flats[FlatId(0)].group, *group);
  EXPECT_EQ(read->flats[FlatId(2)].group, read->flats[FlatId(0)].group);

  message.mutable_flats(0)->set_member(2);
  EXPECT_THAT(FromProto(message, *backend).status().message(),
              HasSubstr("flat rule 0: member 2 of a flat group of 2"));
  message.mutable_flat_groups(0)->set_ranks(0);
  EXPECT_THAT(FromProto(message, *backend).status().message(),
              HasSubstr("flat group 0: split over 0 ranks"));
}

class BadProgramProto : public ::testing::Test {
 protected:
  std::string Error() {
    const absl::StatusOr<Program> read = FromProto(message_, *backend_);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << read.status();
    return std::string(read.status().message());
  }

  std::unique_ptr<Backend> backend_ = *MakeBackend("reference", 1);
  ProgramProto message_ = ToProto(*Compile("mlp", *backend_, 1).FindProgram(kTrain));
};

TEST_F(BadProgramProto, AKernelThatTheBackendLacksIsNamed) {
  message_.mutable_kernels(0)->set_kernel("cudnn");
  EXPECT_THAT(Error(), HasSubstr("program 'train', kernel 0: backend 'reference' has no kernel "
                                 "'cudnn' for "));
}

TEST_F(BadProgramProto, AnIndexOutOfRangeIsNamed) {
  message_.mutable_instructions(3)->set_inputs(0, 100000);
  EXPECT_THAT(Error(), HasSubstr("program 'train', instruction 3: value 100000 does not exist"));
}

TEST_F(BadProgramProto, AWaitForALaterInstructionIsRefused) {
  message_.mutable_instructions(3)->add_waits(3);
  EXPECT_THAT(Error(), HasSubstr("instruction 3: earlier instruction 3 does not exist"));
}

TEST_F(BadProgramProto, AHugeTensorIsRefused) {
  message_.mutable_values(0)->mutable_type()->set_shape(0, int64_t{1} << 60);
  EXPECT_THAT(Error(), HasSubstr("value 0: a tensor with a dimension of 1152921504606846976"));
}

// Regression: a kernel read dimensions that the output did not have.
TEST_F(BadProgramProto, OutputsThatDoNotFollowFromTheInputsAreRefused) {
  for (ProgramProto::Kernel& kernel : *message_.mutable_kernels()) {
    if (kernel.request().op() == "matmul")
      kernel.mutable_request()->mutable_outputs(0)->clear_shape();
  }
  EXPECT_THAT(Error(), HasSubstr(": output 0 should be ["));
  for (ProgramProto::Kernel& kernel : *message_.mutable_kernels()) {
    if (kernel.request().op() == "matmul") kernel.mutable_request()->clear_outputs();
  }
  EXPECT_THAT(Error(), HasSubstr(": has a wrong number of outputs"));
}

TEST_F(BadProgramProto, AnEpilogueThatDoesNotFitIsRefused) {
  ProgramProto::Kernel& kernel = *message_.mutable_kernels(0);
  KernelRequestProto::Epilogue& epilogue = *kernel.mutable_request()->add_epilogues();
  epilogue.set_op("no such operator");
  EXPECT_THAT(Error(), HasSubstr("'no such operator' is no epilogue of it"));
  epilogue.set_op("add");
  EXPECT_THAT(Error(), HasSubstr("program 'train', kernel 0: "));
}

// Arbitrary bytes of a plugin are an error or a Program that can be verified.
TEST_F(BadProgramProto, ChangedBytesAreRefusedOrVerified) {
  const std::string bytes = message_.SerializeAsString();
  std::mt19937 random(1);
  int refused = 0, wrong = 0, right = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    ProgramProto message;
    if (!message.ParseFromString(changed)) continue;
    const absl::StatusOr<Program> read = FromProto(message, *backend_);
    if (!read.ok()) {
      ++refused;
      EXPECT_EQ(read.status().message().find('\n'), absl::string_view::npos) << read.status();
    } else if (!VerifyProgram(*read).ok()) {
      ++wrong;
    } else {
      ++right;  // a path, or a cost
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(wrong, 50);
  EXPECT_GT(right, 50);
}

}  // namespace
}  // namespace tessera
