// Data parallel strategies that train wrongly: the option names how. All of them make a valid
// Program and estimate it correctly.
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"
#include "strategies/conformance/testing/loss_gradient.h"

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

// Inserts scalar instructions into a Program.
class ScalarInserter {
 public:
  // The first one is inserted after instruction `position`, whose output is an f32 scalar.
  ScalarInserter(int position, ProgramProto* program)
      : program_(*program), next_(position + 1), like_(program->instructions(position)) {}

  // Inserts a constant, and returns its value.
  int32_t InsertFill(double value) {
    return Insert("fill", "loops", {}, [value](AttributeProto& attribute) {
      if (attribute.name() == "value") attribute.set_double_value(value);
    });
  }
  // Inserts an instruction like the first one with another operator, and returns its output.
  // `change` edits each attribute; without it they are removed, but the dtype of a cast.
  int32_t Insert(const std::string& op, const std::string& kernel,
                 const std::vector<int32_t>& inputs,
                 const std::function<void(AttributeProto&)>& change = nullptr) {
    ProgramProto::Kernel planned = program_.kernels(like_.kernel());
    KernelRequestProto& request = *planned.mutable_request();
    request.set_op(op);
    for (int i = request.attributes_size() - 1; i >= 0; --i) {
      const std::string& name = request.attributes(i).name();
      if (change != nullptr) {
        change(*request.mutable_attributes(i));
      } else if (op != "cast" || name != "dtype") {
        request.mutable_attributes()->DeleteSubrange(i, 1);
      }
    }
    for (const int32_t input : inputs) *request.add_inputs() = program_.values(input).type();
    planned.set_kernel(kernel);
    const std::string path = "once." + std::to_string(program_.values_size());
    ProgramProto::Value value = program_.values(like_.outputs(0));
    ProgramProto::Buffer buffer = program_.buffers(value.buffer());
    value.set_path(path);
    value.set_buffer(program_.buffers_size());
    buffer.set_path(path);
    Instruction instruction = like_;
    instruction.set_path(path);
    instruction.clear_fused_paths();
    instruction.set_kernel(program_.kernels_size());
    instruction.mutable_inputs()->Assign(inputs.begin(), inputs.end());
    instruction.set_outputs(0, program_.values_size());
    *program_.add_kernels() = planned;
    *program_.add_values() = value;
    *program_.add_buffers() = buffer;
    *program_.add_instructions() = instruction;
    for (int i = program_.instructions_size() - 1; i > next_; --i) {
      program_.mutable_instructions()->SwapElements(i, i - 1);
    }
    ++next_;
    return instruction.outputs(0);
  }
  // Lets the instructions after those that were inserted read `to` instead of `from`.
  void Replace(int32_t from, int32_t to) {
    for (int i = next_; i < program_.instructions_size(); ++i) {
      for (int32_t& input : *program_.mutable_instructions(i)->mutable_inputs()) {
        if (input == from) input = to;
      }
    }
  }

 private:
  ProgramProto& program_;
  int next_;
  const Instruction like_;
};

// Doubles all gradients in the step after `steps` updates: multiplies the gradient of the loss,
// which is 1, by 2 - min(1, (step - steps)^2).
void ScaleOneStep(double steps, ProgramProto& program) {
  int32_t step = -1;
  for (const ProgramProto::State& state : program.states()) {
    if (state.path() == "optimizer.step") step = state.input();
  }
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction instruction = program.instructions(i);
    if (instruction.kind() != Instruction::KERNEL || instruction.outputs_size() == 0) continue;
    if (step < 0 || program.values(instruction.outputs(0)).path() != "loss.divide.grad") continue;
    ScalarInserter scalars(i, &program);
    const int32_t done = scalars.Insert("cast", "loops", {step});
    const int32_t left = scalars.Insert("subtract", "highway", {done, scalars.InsertFill(steps)});
    const int32_t square = scalars.Insert("multiply", "highway", {left, left});
    const int32_t other = scalars.Insert("minimum", "highway", {square, scalars.InsertFill(1)});
    const int32_t factor = scalars.Insert("subtract", "highway", {scalars.InsertFill(2), other});
    scalars.Replace(instruction.outputs(0), factor);
    return;
  }
}

// Makes every reduction a maximum.
void ReduceToMaximum(ProgramProto& program) {
  for (ProgramProto::Collective& collective : *program.mutable_collectives()) {
    collective.set_reduction(ProgramProto::Collective::MAX);
  }
}

// Drops the reductions of all gradients, or that of one small parameter.
void DropReductions(bool all, ProgramProto& program) {
  for (Instruction& instruction : *program.mutable_instructions()) {
    if (!ReducesGradient(instruction, program)) continue;
    const int32_t parameter = program.values(instruction.inputs(0)).gradient_of();
    if (all || program.values(parameter).path() == kSmall) CopyInstead(instruction);
  }
}

class WrongTraining : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    PlanBuilder plan;
    plan.Axis("data");
    plan.SplitBatch(model);
    if (request.Text("fault") == "none") return plan.Build();
    PassChoice::PluginPass& pass = *plan.stage().add_pass()->mutable_plugin();
    pass.set_name("wrong_training");
    pass.set_version("1.0");
    pass.set_pass(request.Text("fault"));
    return plan.Build();
  }

  absl::StatusOr<ProgramProto> RunPass(const PassRequest& request, Host& host) override {
    ProgramProto program = request.program();
    const std::string& fault = request.name();
    if (fault == "evaluate" && program.name() == "evaluate") ReduceToMaximum(program);
    if (program.name() != "train") return program;
    if (fault == "no_reduction") DropReductions(/*all=*/true, program);
    if (fault == "drop_one") DropReductions(/*all=*/false, program);
    if (fault == "maximum") ReduceToMaximum(program);
    if (fault == "one_step") ScaleOneStep(/*steps=*/4, program);
    if (fault == "four_micro_batches" && MicroBatches(program) == 4) SetLossGradient(0.25, program);
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
        .options = {{"fault",
                     "none|no_reduction|maximum|drop_one|one_step|evaluate|four_micro_batches",
                     "none", "what is wrong"}},
        .passes = {"no_reduction", "maximum", "drop_one", "one_step", "evaluate",
                   "four_micro_batches"},
    });

}  // namespace tessera::strategy
