// Data parallel strategies that train wrongly: the option names how. All of them make a valid
// Program and estimate it correctly.
#include <string>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

using Instruction = ProgramProto::Instruction;

// The parameter that `drop_one` does not reduce.
constexpr char kSmall[] = "ln_f.bias";

// Returns whether an instruction reduces gradients of parameters over the ranks.
bool ReducesGradient(const Instruction& instruction, const ProgramProto& program) {
  if (instruction.kind() != Instruction::COLLECTIVE) return false;
  return program.values(instruction.inputs(0)).gradient_of() >= 0;
}

// Lets a rank keep what it would have reduced.
void CopyInstead(Instruction& instruction) {
  instruction.set_kind(Instruction::COPY);
  instruction.set_collective(-1);
}

int MicroBatches(const ProgramProto& program) {
  int count = 0;
  for (const ProgramProto::NamedValue& input : program.inputs()) {
    if (input.name().rfind("tokens@", 0) == 0) ++count;
  }
  return count;
}

// Multiplies the gradient of the loss, and so that of every parameter.
void Scale(double factor, ProgramProto& program) {
  for (Instruction& instruction : *program.mutable_instructions()) {
    if (instruction.kind() != Instruction::KERNEL || instruction.outputs_size() == 0) continue;
    if (program.values(instruction.outputs(0)).path() != "loss.divide.grad") continue;
    ProgramProto::Kernel fill = program.kernels(instruction.kernel());
    for (AttributeProto& attribute : *fill.mutable_request()->mutable_attributes()) {
      if (attribute.name() == "value") attribute.set_double_value(factor);
    }
    instruction.set_kernel(program.kernels_size());
    *program.add_kernels() = fill;
  }
}

// Makes every reduction a maximum.
void ReduceToMaximum(ProgramProto& program) {
  for (ProgramProto::Collective& collective : *program.mutable_collectives()) {
    collective.set_reduction(ProgramProto::Collective::MAX);
  }
}

void DropReductions(bool all, ProgramProto& program) {
  for (Instruction& instruction : *program.mutable_instructions()) {
    if (!ReducesGradient(instruction, program)) continue;
    const int32_t of = program.values(instruction.inputs(0)).gradient_of();
    if (all || program.values(of).path() == kSmall) CopyInstead(instruction);
  }
}

class WrongTraining : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!graphs.ok()) return graphs.status();
    Plan plan;
    Stage& stage = *plan.add_stages();
    stage.add_mesh()->set_name("data");
    SplitBatch(DescribeModel(*graphs), {"data"}, stage);
    if (request.Text("fault") == "none") return plan;
    PassChoice& pass = *stage.add_pass();
    pass.set_name(request.Text("fault"));
    pass.set_plugin("wrong_training");
    pass.set_plugin_version("1.0");
    return plan;
  }

  absl::StatusOr<ProgramProto> RunPass(const PassRequest& request, Host& host) override {
    ProgramProto program = request.program();
    const std::string& fault = request.name();
    if (fault == "evaluate" && program.name() == "evaluate") ReduceToMaximum(program);
    if (program.name() != "train") return program;
    if (fault == "no_reduction") DropReductions(/*all=*/true, program);
    if (fault == "drop_one") DropReductions(/*all=*/false, program);
    if (fault == "maximum") ReduceToMaximum(program);
    if (fault == "four_micro_batches" && MicroBatches(program) == 4) Scale(0.25, program);
    return program;
  }
};

}  // namespace

TESSERA_STRATEGY(
    WrongTraining,
    {
        .name = "wrong_training",
        .version = "1.0",
        .summary = "data parallel, and trains wrongly",
        .options = {{"fault", "none|no_reduction|maximum|drop_one|evaluate|four_micro_batches",
                     "none", "what is wrong"}},
        .passes = {"no_reduction", "maximum", "drop_one", "evaluate", "four_micro_batches"},
    });

}  // namespace tessera::strategy
