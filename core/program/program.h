// A Program: what one rank does in a step. Kernels, collectives and copies on named streams, over
// values with local shapes; every value is a byte range of a buffer, and every buffer lies at a
// planned offset in the arena of its memory space.
//
// The memory planner, the executor and the cost estimate (core/cost) all read the same Program.
// Thread safety: a Program is plain data.
#ifndef TESSERA_CORE_PROGRAM_PROGRAM_H_
#define TESSERA_CORE_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/kernel.h"
#include "core/program/collective_request.h"
#include "core/program/memory_space.h"
#include "core/program/rank_rules.h"

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

// A buffer that is used again holds another category of memory from instruction `first` on.
struct CategoryChange {
  int32_t first = 0;
  Category category = Category::kActivations;
};

// A range of an arena, of any number of values. Live from before instruction `first` runs until
// after `last` has run; first = -1: before the step begins; last = number of instructions: after it
// has ended. Lowering makes buffers; their live ranges are known when buffers are assigned.
struct Buffer {
  std::string path;  // of the value that it was made for
  int64_t bytes = 0;
  MemorySpace space = MemorySpace::kDevice;
  Category category = Category::kActivations;  // at first
  std::vector<CategoryChange> changes;         // in order
  bool state = false;  // kept from step to step, shared by the Programs of a run
  int32_t first = 0;
  int32_t last = 0;
  int64_t offset = -1;  // in its space's arena; planned

  Category CategoryAt(int32_t instruction) const;
};

// A tensor in bytes of a buffer. Several values may be live in one buffer at a time, and one may be
// written while others are live; the verifier looks at bytes.
//
// Some values share their elements with another one, `within`: those that no instruction writes are
// views of it (a reshape, a slice, a member of a gathered group), those that an instruction writes
// are parts that it is assembled from (a tensor of a concatenation, a gradient in its bucket).
// Every element of a tensor and of what lies within it is written once.
//
// Ranks may hold different parts of a tensor. `type` and `strides` are those of the padded part,
// the same on all ranks; the part of a rank is a prefix of it in every dimension, and may be empty.
// Padding past it is never read as a value; copies and collectives may move it.
struct ProgramValue {
  std::string path;
  TensorType type;  // as it is kept on the backend; the padded local shape
  Strides strides;  // elements
  Role role = Role::kActivation;
  int32_t buffer = kNone;  // kNone: nothing needs the value any more
  int64_t offset = 0;      // of its first element in the buffer, in bytes
  int32_t within = kNone;  // a value of the same buffer that lies within no other
  // The input value of the parameter that this is the gradient of, with all contributions, or a
  // micro-batch's share of it; kNone: of none.
  int32_t gradient_of = kNone;
  int32_t part = kNone;  // in Program::parts; kNone: the same on all ranks
  // If this value is each rank's slice of another one (more axes split it): that other one. A slice
  // has the strides and the offset of the value that it is sliced from; on a rank it begins behind
  // that value by the difference of their parts' starts. If this value is a view of a slice: the
  // slice, with which it moves. No instruction writes a slice or a view of one.
  int32_t sliced_from = kNone;
  // In Program::flats, of a value that holds a rank's elements of a member of a flat group. They
  // begin behind `offset`, which is that of the group's first element, by their position in the
  // rank's part. `part` is then the member's part over the other axes, which the group has stored.
  int32_t flat = kNone;
  // Each rank's elements are stored row-major by the rank's own extents, without padding, in the
  // first bytes of the padded part. Kernels that take no strides need this form. Such a value has
  // no slices, its views have all of its elements in the same order, and no collective works on it.
  bool packed = false;
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

enum class InstructionKind : uint8_t {
  kKernel,
  kCollective,
  kSend,     // to another rank
  kReceive,  // from another rank
  kCopy,     // the bytes of the input, a contiguous value, to the output, one of the same type
};

// One step of a stream. A stream runs its instructions one after another, in the Program's order;
// between streams only `waits` order them. They follow from the bytes that instructions read and
// write, also where a buffer gets memory that another stream has used.
struct Instruction {
  std::string path;
  InstructionKind kind = InstructionKind::kKernel;
  int32_t stream = 0;          // in Program::streams
  std::vector<int32_t> waits;  // instructions of other streams that have ended before it begins
  int32_t kernel = kNone;      // of kKernel: in Program::kernels
  int32_t collective = kNone;  // of kCollective, kSend, kReceive: in Program::collectives
  int32_t draw = kNone;        // of a kernel that draws random numbers: in Program::draws
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
  // The path of the recorded state that this is, or (the part of its value) a slice of.
  std::string origin;
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
  std::vector<std::string> streams = {"compute"};
  std::vector<PlannedKernel> kernels;          // each request once, in the order of first use
  std::vector<CollectiveRequest> collectives;  // each once
  Mesh mesh;                                   // of one rank, unless a Plan says otherwise
  std::vector<PartRule> parts;                 // each once; see RankRuleTable
  std::vector<FlatRule> flats;                 // each once
  std::vector<DrawRule> draws;
  std::vector<Instruction> instructions;
  std::vector<Buffer> buffers;
  std::vector<NamedValue> inputs;
  std::vector<ProgramState> states;
  std::vector<NamedValue> outputs;
  int threads = 1;
  SpaceBytes arenas;  // planned: no buffer of a space ends after its arena

  const ProgramValue& value(int32_t id) const { return values[id]; }
  // The tensor that a value is, or lies within.
  int32_t TensorOf(int32_t value) const {
    return values[value].within == kNone ? value : values[value].within;
  }
  const PlannedKernel& KernelOf(const Instruction& instruction) const {
    return kernels[instruction.kernel];
  }
  bool Communicates(const Instruction& instruction) const {
    return instruction.collective != kNone;
  }
  // "matmul", "all-reduce", "copy-bytes"
  std::string OperationOf(const Instruction& instruction) const;
  // Returns the index of an equal request in `collectives`, which is added if there is none.
  int32_t EnterCollective(const CollectiveRequest& request);
  // The groups of `flats`, in the order of first use.
  std::vector<std::shared_ptr<const FlatGroup>> FlatGroups() const;
  // First byte of a value; after planning.
  ArenaAddress AddressOf(int32_t value) const;
  // The bytes of all arenas together; after planning.
  int64_t arena_bytes() const { return arenas.total(); }
  // kNone if there is none of that name.
  int32_t FindInput(absl::string_view name) const;
  int32_t FindOutput(absl::string_view name) const;

  // One line for each input, state, instruction, output and buffer; see docs/architecture.md.
  std::string ToString() const;
  std::string Fingerprint() const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PROGRAM_H_
