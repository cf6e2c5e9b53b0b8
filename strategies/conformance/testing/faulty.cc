// A data parallel strategy with a fault that the option names, which the checks must find.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {
namespace {

using Instruction = ProgramProto::Instruction;

bool IsCollective(const Instruction& instruction) {
  return instruction.kind() == Instruction::COLLECTIVE;
}

// Inserts, after instruction `at`, a reduction of a value that is like the reduction `like`. Later
// instructions read the result.
void Reduce(int32_t first, int at, const Instruction& like, ProgramProto& program) {
  Instruction again = like;
  const int32_t second = program.values_size();
  ProgramProto::Value value = program.values(first);
  ProgramProto::Buffer buffer = program.buffers(value.buffer());
  value.set_path(value.path() + ".again");
  value.set_buffer(program.buffers_size());
  buffer.set_path(buffer.path() + ".again");
  again.set_path(value.path());
  again.set_inputs(0, first);
  again.set_outputs(0, second);
  for (int32_t id = 0; id < program.values_size(); ++id) {
    ProgramProto::Value& view = *program.mutable_values(id);
    if (view.within() != first) continue;
    view.set_within(second);
    view.set_buffer(value.buffer());
  }
  for (int j = at + 1; j < program.instructions_size(); ++j) {
    for (int32_t& input : *program.mutable_instructions(j)->mutable_inputs()) {
      if (input == first) input = second;
    }
  }
  for (ProgramProto::NamedValue& output : *program.mutable_outputs()) {
    if (output.value() == first) output.set_value(second);
  }
  *program.add_values() = value;
  *program.add_buffers() = buffer;
  *program.add_instructions() = again;
  for (int j = program.instructions_size() - 1; j > at + 1; --j) {
    program.mutable_instructions()->SwapElements(j, j - 1);
  }
}

// Reduces the first large gradient a second time, so that its updates read the sum of sums.
void ReduceTwice(ProgramProto& program) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& reduction = program.instructions(i);
    if (!IsCollective(reduction) || reduction.phase() == 0) continue;
    if (program.values(reduction.outputs(0)).within() >= 0) continue;
    Reduce(reduction.outputs(0), i, Instruction(reduction), program);
    return;
  }
}

// A value and the instruction that writes it.
struct Made {
  int32_t value = -1;
  int by = -1;
};

Made FindMade(const std::string& path, const ProgramProto& program) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    for (const int32_t output : program.instructions(i).outputs()) {
      if (program.values(output).path() == path) return {output, i};
    }
  }
  return {};
}

int MicroBatches(const ProgramProto& program) {
  int count = 0;
  for (const ProgramProto::NamedValue& input : program.inputs()) {
    if (input.name().rfind("tokens@", 0) == 0) ++count;
  }
  return count;
}

// Reduces the gradient of a bias after each micro-batch, and their sum once more.
void ReduceEachMicroBatch(ProgramProto& program) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (!IsCollective(program.instructions(i))) continue;
    const Instruction reduction(program.instructions(i));
    const std::string path = program.values(reduction.inputs(0)).path();
    if (path.find(".bias.grad") == std::string::npos) continue;
    for (int k = 0; k < MicroBatches(program); ++k) {
      const Made made = FindMade(path + "@" + std::to_string(k), program);
      if (made.by >= 0) Reduce(made.value, made.by, reduction, program);
    }
    return;
  }
}

// Divides the gradient of the loss by the number of micro-batches, although in each it already is
// the gradient of the mean over the global batch.
void AverageMicroBatches(ProgramProto& program) {
  const int seed = FindMade("loss.divide.grad", program).by;
  if (seed < 0 || MicroBatches(program) == 0) return;
  ProgramProto::Kernel fill = program.kernels(program.instructions(seed).kernel());
  for (AttributeProto& attribute : *fill.mutable_request()->mutable_attributes()) {
    if (attribute.name() == "value") attribute.set_double_value(1.0 / MicroBatches(program));
  }
  program.mutable_instructions(seed)->set_kernel(program.kernels_size());
  *program.add_kernels() = fill;
}

// Reduces to the maximum instead of the sum.
void ReduceWrongly(ProgramProto& program) {
  for (ProgramProto::Collective& collective : *program.mutable_collectives()) {
    collective.set_reduction(ProgramProto::Collective::MAX);
  }
}

// Lets a kernel's output share the bytes of its input.
void ShareBytes(ProgramProto& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.kind() != Instruction::KERNEL || instruction.inputs_size() < 2) continue;
    const ProgramProto::Value& read = program.values(instruction.inputs(1));
    ProgramProto::Value& made = *program.mutable_values(instruction.outputs(0));
    const bool fits =
        program.buffers(read.buffer()).bytes() >= program.buffers(made.buffer()).bytes();
    if (!fits || read.within() >= 0 || made.within() >= 0) continue;
    made.set_buffer(read.buffer());
    made.set_offset(0);
    return;
  }
}

// Moves the last collective before its predecessor, on every second rank that runs the pass.
void Reorder(ProgramProto& program) {
  static std::atomic<int> calls{0};
  if (calls++ % 4 < 2) return;  // two Programs per rank
  std::vector<int> collectives;
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (IsCollective(program.instructions(i))) collectives.push_back(i);
  }
  if (collectives.size() < 2) return;
  const int last = collectives.back(), before = collectives[collectives.size() - 2];
  Instruction delayed = program.instructions(before);
  for (int i = before; i < last; ++i) {
    program.mutable_instructions()->SwapElements(i, i + 1);
  }
}

class Faulty : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    const std::string& fault = request.Text("fault");
    if (fault == "throw") throw std::runtime_error("the strategy is\nbroken");
    if (fault == "refuse") return absl::InvalidArgumentError("no such thing");
    if (fault == "any_limit" && request.memory_limit_bytes() > 0) {
      return absl::ResourceExhaustedError("the limit is too low; 17 are enough");
    }
    if (fault == "no_limit" && request.memory_limit_bytes() > 0) {
      return absl::ResourceExhaustedError("too little memory");
    }
    if (fault == "high_limit" && request.memory_limit_bytes() == 1) {
      return absl::ResourceExhaustedError("the smallest limit is 123456789");
    }
    if (fault == "infeasible") return absl::ResourceExhaustedError("needs at least 17 B");
    if (fault == "hang" || fault == "hang_with_plan") return Hang(fault == "hang_with_plan", host);
    absl::StatusOr<Plan> plan = DataParallel(host);
    if (!plan.ok()) return plan;
    Stage& stage = *plan->mutable_stages(0);
    static std::atomic<int> calls{0};
    if (fault == "no_mesh") stage.clear_mesh();
    if (fault == "unknown_path") stage.mutable_store(0)->set_path("no.such.path");
    if (fault == "random" && calls++ % 2 == 1) stage.add_pass()->set_name("bucket_gradients");
    if (fault == "reduce_twice" || fault == "reduce_each_micro_batch" ||
        fault == "average_micro_batches" || fault == "reduce_wrongly" || fault == "share_bytes" ||
        fault == "reorder" || fault == "no_program") {
      PassChoice& pass = *stage.add_pass();
      pass.set_name(fault);
      pass.set_plugin("faulty");
      pass.set_plugin_version("1.0");
    }
    return plan;
  }

  absl::StatusOr<StepCost> Estimate(const Request& request, const Plan& plan, Host& host) override {
    Plan without = plan;
    without.mutable_stages(0)->clear_pass();
    absl::StatusOr<StepCost> cost = host.Lower(without);
    if (!cost.ok()) return cost;
    const std::string& fault = request.Text("fault");
    if (fault == "fewer_bytes" && cost->collectives_size() > 0) {
      cost->mutable_collectives(0)->set_bytes(cost->collectives(0).bytes() / 2);
    }
    if (fault == "fewer_calls" && cost->collectives_size() > 0) {
      cost->mutable_collectives(0)->set_calls(cost->collectives(0).calls() - 1);
    }
    if (fault == "less_memory") cost->set_peak_bytes(cost->peak_bytes() - 64);
    return cost;
  }

  absl::StatusOr<ProgramProto> RunPass(const PassRequest& request, Host& host) override {
    ProgramProto program = request.program();
    if (request.name() == "reduce_twice") ReduceTwice(program);
    if (request.name() == "reduce_each_micro_batch") ReduceEachMicroBatch(program);
    if (request.name() == "average_micro_batches") AverageMicroBatches(program);
    if (request.name() == "reduce_wrongly") ReduceWrongly(program);
    if (request.name() == "share_bytes") ShareBytes(program);
    if (request.name() == "reorder") Reorder(program);
    while (request.name() == "endless") std::this_thread::sleep_for(std::chrono::seconds(1));
    if (request.name() == "no_program" && program.instructions_size() > 0) {
      program.mutable_instructions(0)->add_inputs(1 << 20);
    }
    return program;
  }

 private:
  static absl::StatusOr<Plan> DataParallel(Host& host) {
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!graphs.ok()) return graphs.status();
    Plan plan;
    Stage& stage = *plan.add_stages();
    stage.add_mesh()->set_name("data");
    SplitBatch(DescribeModel(*graphs), {"data"}, stage);
    return plan;
  }

  // Never returns, even if the host cancels.
  static absl::StatusOr<Plan> Hang(bool report, Host& host) {
    absl::StatusOr<Plan> plan = DataParallel(host);
    Progress progress;
    if (plan.ok() && report) *progress.mutable_best() = *plan;
    progress.set_fraction(0.5);
    progress.set_message("half done");
    host.Report(progress);
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
};

}  // namespace

TESSERA_STRATEGY(Faulty, {
                             .name = "faulty",
                             .version = "1.0",
                             .summary = "data parallel, with a fault",
                             .options = {{"fault", "text", "none", "what is wrong"},
                                         {"size", "bytes", "1KiB", "an option of bytes"},
                                         {"choice", "a|b", "a", "an option of choices"},
                                         {"count", "int", "3", "an option of a whole number"},
                                         {"share", "number", "0.5", "an option of a number"},
                                         {"on", "bool", "no", "an option of yes or no"}},
                             .passes = {"reduce_twice", "reduce_each_micro_batch",
                                        "average_micro_batches", "reduce_wrongly", "share_bytes",
                                        "reorder", "no_program", "endless"},
                         });

}  // namespace tessera::strategy
