// A Program: what one rank does in a step. Kernels over values with local shapes, in order; every
// value lies in a buffer, every buffer at a planned offset of one arena.
//
// The memory planner, the executor and (later) the simulator all read the same Program.
// Thread safety: a Program is plain data.
#ifndef TESSERA_CORE_PROGRAM_PROGRAM_H_
#define TESSERA_CORE_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/kernel.h"

namespace tessera {

// The categories of memory in every report.
enum class Category : uint8_t {
  kParameters,
  kGradients,
  kOptimizerState,
  kActivations,
  kInputs,
  kCache,
  kWorkspace,
};
inline constexpr Category kAllCategories[] = {
    Category::kParameters, Category::kGradients, Category::kOptimizerState, Category::kActivations,
    Category::kInputs,     Category::kCache,     Category::kWorkspace};
absl::string_view CategoryName(Category category);

// From instruction `first` on, a buffer that was taken over holds something of another category.
struct CategoryChange {
  int32_t first = 0;
  Category category = Category::kActivations;
};

// A stretch of the arena. Live from before instruction `first` runs until after `last` has run;
// first = -1: before the step begins; last = number of instructions: after it has ended.
struct Buffer {
  std::string path;  // of the value that it was made for
  int64_t bytes = 0;
  Category category = Category::kActivations;  // at first
  std::vector<CategoryChange> changes;         // in order
  bool state = false;  // kept from step to step, shared by the Programs of a run
  int32_t first = 0;
  int32_t last = 0;
  int64_t offset = -1;  // in the arena; planned

  Category CategoryAt(int32_t instruction) const;
};

// A value is written once. A view shares the memory of its root.
struct ProgramValue {
  std::string path;
  TensorType type;  // as it is kept on the backend
  Strides strides;  // elements
  Role role = Role::kActivation;
  int32_t root = kNone;     // the value whose memory it shares; itself if it is no view
  int64_t root_offset = 0;  // elements from the root's first
  int32_t buffer = kNone;   // of the root; filled in when buffers are assigned
};

// A kernel request with the kernel that serves it. Instructions of a Program that do equal work
// share one, so that whatever depends on the work alone (a key, a workspace, a library's primitive)
// is made once.
struct PlannedKernel {
  KernelRequest request;
  std::string key;               // request.Key()
  const Operator* op = nullptr;  // the main operator, request.op
  const Kernel* kernel = nullptr;
  int64_t workspace_bytes = 0;  // filled in when buffers are assigned
};

struct Instruction {
  std::string path;
  int32_t kernel = kNone;                // in Program::kernels
  std::vector<std::string> fused_paths;  // of the operators that were fused behind the main one
  std::vector<int32_t> inputs;           // values; epilogues' extra inputs come last
  std::vector<int32_t> outputs;          // values
  std::vector<int32_t> after;  // values whose producers must have run, though it reads none
  int32_t workspace = kNone;   // buffer
  Phase phase = Phase::kForward;
  bool recomputed = false;
  OpCost cost;
};

struct ProgramState {
  std::string path;
  Role role = Role::kParameter;  // parameter, optimizer state or cache
  int32_t input = kNone;         // value; kNone: only written
  int32_t updated = kNone;       // value; lies in the same bytes as `input`
};

struct NamedValue {
  std::string name;
  int32_t value = kNone;
};

struct Program {
  std::string name;
  std::vector<ProgramValue> values;
  std::vector<PlannedKernel> kernels;  // each request once, in the order of their first use
  std::vector<Instruction> instructions;
  std::vector<Buffer> buffers;
  std::vector<NamedValue> inputs;
  std::vector<ProgramState> states;
  std::vector<NamedValue> outputs;
  int threads = 1;
  int64_t arena_bytes = 0;  // planned: no buffer ends after it

  const ProgramValue& value(int32_t id) const { return values[id]; }
  const PlannedKernel& KernelOf(const Instruction& instruction) const {
    return kernels[instruction.kernel];
  }
  // First byte of a value in the arena; after planning.
  int64_t OffsetOf(int32_t value) const;
  // kNone if there is none of that name.
  int32_t FindInput(absl::string_view name) const;
  int32_t FindOutput(absl::string_view name) const;

  // One line for each input, state, instruction, output and buffer; see docs/architecture.md.
  std::string ToString() const;
  std::string Fingerprint() const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PROGRAM_H_
