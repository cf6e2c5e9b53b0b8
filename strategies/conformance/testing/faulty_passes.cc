#include "strategies/conformance/testing/faulty_passes.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "strategies/conformance/testing/loss_gradient.h"

namespace tessera::strategy {
namespace {

using Instruction = ProgramProto::Instruction;

bool IsCollective(const Instruction& instruction) {
  return instruction.kind() == Instruction::COLLECTIVE;
}

// Inserts, after instruction `position`, a reduction of value `first` that is like the reduction
// `like`. Later instructions read the result.
void InsertReduction(int32_t first, int position, const Instruction& like, ProgramProto& program) {
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
  for (int j = position + 1; j < program.instructions_size(); ++j) {
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
  for (int j = program.instructions_size() - 1; j > position + 1; --j) {
    program.mutable_instructions()->SwapElements(j, j - 1);
  }
}

// Reduces the first large gradient a second time, so that its updates read the sum of sums.
void ReduceTwice(ProgramProto& program) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& reduction = program.instructions(i);
    if (!IsCollective(reduction) || reduction.phase() == 0) continue;
    if (program.values(reduction.outputs(0)).within() >= 0) continue;
    InsertReduction(reduction.outputs(0), i, Instruction(reduction), program);
    return;
  }
}

// A value and the instruction that writes it.
struct WrittenValue {
  int32_t value = -1;
  int by = -1;
};

// Returns the value with this path that an instruction writes; -1 if there is none.
WrittenValue FindWrittenValue(const std::string& path, const ProgramProto& program) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    for (const int32_t output : program.instructions(i).outputs()) {
      if (program.values(output).path() == path) return {output, i};
    }
  }
  return {};
}

// Reduces the gradient of a bias after each micro-batch, and their sum once more.
void ReduceEachMicroBatch(ProgramProto& program) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (!IsCollective(program.instructions(i))) continue;
    const Instruction reduction(program.instructions(i));
    const std::string path = program.values(reduction.inputs(0)).path();
    if (path.find(".bias.grad") == std::string::npos) continue;
    for (int k = 0; k < MicroBatches(program); ++k) {
      const WrittenValue made = FindWrittenValue(path + "@" + std::to_string(k), program);
      if (made.by >= 0) InsertReduction(made.value, made.by, reduction, program);
    }
    return;
  }
}

// Divides the gradient of the loss by the number of micro-batches, although in each it already is
// the gradient of the mean over the global batch.
void AverageMicroBatches(ProgramProto& program) {
  const int count = MicroBatches(program);
  if (count > 0) SetLossGradient(1.0 / count, program);
}

// Reduces to the maximum instead of the sum.
void ReduceWrongly(ProgramProto& program) {
  for (ProgramProto::Collective& collective : *program.mutable_collectives()) {
    collective.set_reduction(ProgramProto::Collective::MAX);
  }
}

// Reduces to the maximum in evaluation alone.
void EvaluateWrongly(ProgramProto& program) {
  if (program.name() == "evaluate") ReduceWrongly(program);
}

// Reduces the smallest gradient alone to the maximum.
void ReduceSmallestWrongly(ProgramProto& program) {
  Instruction* smallest = nullptr;
  for (Instruction& instruction : *program.mutable_instructions()) {
    if (!IsCollective(instruction) || instruction.phase() == Instruction::FORWARD) continue;
    const int64_t elements = program.collectives(instruction.collective()).elements();
    if (elements == 1 || (smallest != nullptr &&
                          elements >= program.collectives(smallest->collective()).elements())) {
      continue;
    }
    smallest = &instruction;
  }
  if (smallest == nullptr) return;
  ProgramProto::Collective wrong = program.collectives(smallest->collective());
  wrong.set_reduction(ProgramProto::Collective::MAX);
  smallest->set_collective(program.collectives_size());
  *program.add_collectives() = wrong;
}

// Lets everything read a gradient before it is reduced.
void ReadUnreduced(ProgramProto& program) {
  for (const Instruction& reduction :
       std::vector<Instruction>(program.instructions().begin(), program.instructions().end())) {
    if (!IsCollective(reduction) || reduction.phase() == Instruction::FORWARD) continue;
    for (Instruction& reader : *program.mutable_instructions()) {
      for (int32_t& input : *reader.mutable_inputs()) {
        if (input == reduction.outputs(0)) input = reduction.inputs(0);
      }
    }
  }
}

// Adds a large number to the variance of layers that normalise, in generation alone.
void GenerateWrongly(ProgramProto& program) {
  if (program.name() != "generate") return;
  for (ProgramProto::Kernel& kernel : *program.mutable_kernels()) {
    for (AttributeProto& attribute : *kernel.mutable_request()->mutable_attributes()) {
      if (attribute.name() == "eps") attribute.set_double_value(1);
    }
  }
}

// Lets a kernel's output share the bytes of its input.
void ShareBytes(ProgramProto& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.kind() != Instruction::KERNEL || instruction.inputs_size() < 2) continue;
    const ProgramProto::Value& read = program.values(instruction.inputs(1));
    ProgramProto::Value& made = *program.mutable_values(instruction.outputs(0));
    const bool is_large_enough =
        program.buffers(read.buffer()).bytes() >= program.buffers(made.buffer()).bytes();
    if (!is_large_enough || read.within() >= 0 || made.within() >= 0) continue;
    made.set_buffer(read.buffer());
    made.set_offset(0);
    return;
  }
}

// Moves the last collective before its predecessor.
void SwapLastCollectives(ProgramProto& program) {
  if (program.name() != "train") return;
  std::vector<int> collectives;
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (IsCollective(program.instructions(i))) collectives.push_back(i);
  }
  if (collectives.size() < 2) return;
  const int last = collectives.back(), before = collectives[collectives.size() - 2];
  for (int i = before; i < last; ++i) {
    program.mutable_instructions()->SwapElements(i, i + 1);
  }
}

void ReorderOnOddRanks(ProgramProto& program) {
  const char* const rank = std::getenv("RANK");
  if (rank != nullptr && std::atoi(rank) % 2 == 1) SwapLastCollectives(program);
}

void ReorderInOddSeconds(ProgramProto& program) {
  if (std::time(nullptr) % 2 == 1) SwapLastCollectives(program);
}

void ReturnNoProgram(ProgramProto& program) {
  if (program.instructions_size() > 0) program.mutable_instructions(0)->add_inputs(1 << 20);
}

void NeverEnd(ProgramProto&) {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void Abort(ProgramProto&) { std::abort(); }

}  // namespace

const std::vector<FaultyPass>& FaultyPasses() {
  static const auto* const passes = new std::vector<FaultyPass>{
      {"reduce_twice", ReduceTwice},
      {"reduce_each_micro_batch", ReduceEachMicroBatch},
      {"average_micro_batches", AverageMicroBatches},
      {"reduce_wrongly", ReduceWrongly},
      {"reduce_smallest_wrongly", ReduceSmallestWrongly},
      {"read_unreduced", ReadUnreduced},
      {"evaluate_wrongly", EvaluateWrongly},
      {"generate_wrongly", GenerateWrongly},
      {"share_bytes", ShareBytes},
      {"reorder_on_odd_ranks", ReorderOnOddRanks},
      {"reorder_in_odd_seconds", ReorderInOddSeconds},
      {"no_program", ReturnNoProgram},
      {"endless", NeverEnd},
      {"abort_in_pass", Abort},
  };
  return *passes;
}

}  // namespace tessera::strategy
