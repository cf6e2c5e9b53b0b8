// A Program: the instructions that one rank runs in a step. Kernels, collectives and copies run on
// named streams and work on values with local shapes. Every value is a byte range of a buffer, and
// every buffer is at a planned offset in the arena of its memory space.
//
// The memory planner, the executor and the cost estimates (core/cost) all read the same Program.
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

// A buffer that is reused holds a tensor of this category from instruction `first` on.
struct CategoryChange {
  int32_t first = 0;
  Category category = Category::kActivations;
};

// A range of an arena that holds one or more values. It is live from before instruction `first`
// runs until after instruction `last` has run. first = -1: from before the step begins; last =
// number of instructions: until after it has ended. Lowering makes buffers; their live ranges are
// filled in when buffers are assigned.
struct Buffer {
  std::string path;  // of the value for which the buffer was made
  int64_t bytes = 0;
  MemorySpace space = MemorySpace::kDevice;
  Category category = Category::kActivations;  // until the first change
  std::vector<CategoryChange> changes;         // in order
  bool state = false;  // kept from step to step, shared by the Programs of a run
  int32_t first = 0;
  int32_t last = 0;
  int64_t offset = -1;  // in the arena of its space; -1: not planned yet

  Category CategoryAt(int32_t instruction) const;
};

// A tensor in bytes of a buffer. Several values may be live in one buffer at a time, and one may be
// written while others are live; the verifier tracks byte ranges.
//
// Some values share their elements with another value, `within`. Those that no instruction writes
// are views of it (a reshape, a slice, a member of a gathered group). Those that an instruction
// writes are parts that it is assembled from (an input of a concatenation, a gradient in its
// bucket). Every element of a tensor and its parts is written once.
//
// Ranks may hold different parts of a tensor. `type` and `strides` describe the padded part, which
// is the same on all ranks. A rank's own part is a prefix of it in every dimension, and may be
// empty. Padding is never read as a value; copies and collectives may move it.
struct ProgramValue {
  std::string path;
  TensorType type;  // dtype as stored on the backend; padded local shape
  Strides strides;  // elements
  Role role = Role::kActivation;
  int32_t buffer = kNone;  // kNone: no instruction needs the value any more
  int64_t offset = 0;      // of its first element in the buffer, in bytes
  int32_t within = kNone;  // a value of the same buffer that is not within another one itself
  // The input value of a parameter, if this value is the parameter's gradient (with all
  // contributions, or with those of one micro-batch); kNone otherwise.
  int32_t gradient_of = kNone;
  int32_t part = kNone;  // in Program::parts; kNone: the same on all ranks
  // The base value, if this value is each rank's slice of another one (more axes split it). A slice
  // has the strides and the offset of the base; on a rank it begins after the base by the
  // difference of the starts of their parts. If this value is a view of a slice, this is the slice,
  // and the view moves with it. No instruction writes a slice or a view of one.
  int32_t sliced_from = kNone;
  // Index in Program::flats, for a value that holds a rank's elements of a member of a flat group.
  // `offset` is then that of the group's first element; the value begins after it by the position
  // of its elements in the rank's part. `part` is then the member's part over the mesh axes that
  // the group is not split over, as the group stores it.
  int32_t flat = kNone;
  // If true, each rank's part is row-major by its own extents, in the first bytes of the padded
  // part, which is what kernels without strides need. Such a value has no slices, its views have
  // all elements in the same order, and collectives cannot use it.
  bool packed = false;
};

// A kernel request and the kernel that serves it. Instructions of a Program that do equal work
// share one, so that everything that depends on the work alone (a key, a workspace, a library's
// primitive) is made once.
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
  kCopy,     // copies a contiguous input to an output of the same type
};

// One step of a stream. A stream runs its instructions one after another, in the Program's order.
// Only `waits` order instructions of different streams. Waits are derived from the bytes that
// instructions read and write, including memory that one buffer takes over from another.
struct Instruction {
  std::string path;
  InstructionKind kind = InstructionKind::kKernel;
  int32_t stream = 0;          // in Program::streams
  std::vector<int32_t> waits;  // instructions of other streams that must end before it begins
  int32_t kernel = kNone;      // of kKernel: index in Program::kernels
  int32_t collective = kNone;  // of kCollective, kSend, kReceive: index in Program::collectives
  int32_t draw = kNone;        // of a kernel that draws random numbers: index in Program::draws
  std::vector<std::string> fused_paths;  // of the operators that were fused into the main one
  std::vector<int32_t> inputs;           // values; epilogues' extra inputs come last
  std::vector<int32_t> outputs;          // values
  std::vector<int32_t> after;  // values that must be written before it, but that it does not read
  int32_t workspace = kNone;   // buffer
  Phase phase = Phase::kForward;
  bool recomputed = false;
  OpCost cost;
};

struct ProgramState {
  std::string path;
  // The path of the recorded state that this state is, or is a slice of.
  std::string origin;
  Role role = Role::kParameter;  // parameter, optimizer state or cache
  int32_t input = kNone;         // value; kNone: only written
  int32_t updated = kNone;       // value; in the same bytes as `input`
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
  SpaceBytes arenas;  // planned size of each arena

  const ProgramValue& value(int32_t id) const { return values[id]; }
  // Returns the tensor that contains the value: `within`, or the value itself.
  int32_t TensorOf(int32_t value) const {
    return values[value].within == kNone ? value : values[value].within;
  }
  const PlannedKernel& KernelOf(const Instruction& instruction) const {
    return kernels[instruction.kernel];
  }
  bool Communicates(const Instruction& instruction) const {
    return instruction.collective != kNone;
  }
  // Returns the rule of the elements that ranks hold of a value. A value without one is the same on
  // all ranks. For a flat value, these are its member's elements before the group is split.
  PartRule PartOf(const ProgramValue& value) const;
  // Returns text like "matmul", "all-reduce" or "copy-bytes".
  std::string OperationOf(const Instruction& instruction) const;
  // Returns the index of the request in `collectives`; adds it if there is no equal one.
  int32_t EnterCollective(const CollectiveRequest& request);
  // Returns the groups of `flats`, in the order of first use.
  std::vector<std::shared_ptr<const FlatGroup>> FlatGroups() const;
  // Returns the address of the first byte of a value; after planning.
  ArenaAddress AddressOf(int32_t value) const;
  // Returns the total bytes of all arenas; after planning.
  int64_t arena_bytes() const { return arenas.total(); }
  // Return kNone if there is none of that name.
  int32_t FindInput(absl::string_view name) const;
  int32_t FindOutput(absl::string_view name) const;

  // One line for each input, state, instruction, output and buffer; see docs/architecture.md.
  std::string ToString() const;
  std::string Fingerprint() const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PROGRAM_H_
