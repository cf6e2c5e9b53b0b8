// A Program: the instructions that one rank runs in a step. Kernels, collectives and copies run on
// named streams and work on values with local shapes. Every value is a byte range of a buffer, and
// every buffer is at a planned offset in the arena of its memory space.
//
// The memory planner, the executor and the cost estimates (core/cost) all read the same Program.
// Thread safety: a Program is plain data.
#ifndef TESSERA_CORE_PROGRAM_PROGRAM_H_
#define TESSERA_CORE_PROGRAM_PROGRAM_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/ids/id.h"
#include "core/ids/table.h"
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
  kRunningStatistics,
};
inline constexpr Category kAllCategories[] = {
    Category::kParameters,  Category::kGradients,        Category::kOptimizerState,
    Category::kActivations, Category::kInputs,           Category::kCache,
    Category::kWorkspace,   Category::kRunningStatistics};
absl::string_view CategoryName(Category category);
using BytesByCategory = std::array<int64_t, std::size(kAllCategories)>;

// The ids of what a Program has: positions in its tables.
using ProgramValueId = Id<struct ProgramValue>;
using BufferId = Id<struct Buffer>;
using InstructionId = Id<struct Instruction>;
using KernelId = Id<struct PlannedKernel>;
using CollectiveId = Id<CollectiveRequest>;
using StreamId = Id<struct ProgramStream>;  // a name in Program::streams
using PartId = Id<PartRule>;
using FlatId = Id<FlatRule>;
using DrawId = Id<DrawRule>;
using ProgramStateId = Id<struct ProgramState>;

inline constexpr StreamId kFirstStream(0);  // it computes

// A buffer that is reused holds a tensor of this category from the time `first` on; times
// are those of a Buffer.
struct CategoryChange {
  int32_t first = 0;
  Category category = Category::kActivations;
};

// A range of an arena that holds one or more values. It is live from before instruction `first`
// runs until after instruction `last` has run. These are times, not ids: first = -1: from before
// the step begins; last = number of instructions: until after it has ended. Lowering makes buffers;
// their live ranges are filled in when buffers are assigned.
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

  Category CategoryAt(int32_t time) const;
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
  BufferId buffer;        // kNone: no instruction needs the value any more
  int64_t offset = 0;     // of its first element in the buffer, in bytes
  ProgramValueId within;  // a value of the same buffer that is not within another one itself
  // The input value of a parameter, if this value is the parameter's gradient (with all
  // contributions, or with those of one micro-batch); kNone otherwise.
  ProgramValueId gradient_of;
  PartId part;  // kNone: the same on all ranks
  // The base value, if this value is each rank's slice of another one (more axes split it). A slice
  // has the strides and the offset of the base; on a rank it begins after the base by the
  // difference of the starts of their parts. If this value is a view of a slice, this is the slice,
  // and the view moves with it. No instruction writes a slice or a view of one.
  ProgramValueId sliced_from;
  // The rule of a value that holds a rank's elements of a member of a flat group. `offset` is then
  // that of the group's first element; the value begins after it by the position of its elements in
  // the rank's part. `part` is then the member's part over the mesh axes that the group is not
  // split over, as the group stores it.
  FlatId flat;
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

// The values that an instruction reads or writes, of which there are rarely more than four.
using Operands = absl::InlinedVector<ProgramValueId, 4>;

// One step of a stream. A stream runs its instructions one after another, in the Program's order.
// Only `waits` order instructions of different streams. Waits are derived from the bytes that
// instructions read and write, including memory that one buffer takes over from another.
struct Instruction {
  std::string path;
  InstructionKind kind = InstructionKind::kKernel;
  StreamId stream = kFirstStream;
  // Instructions of other streams that must end before it begins.
  absl::InlinedVector<InstructionId, 4> waits;
  KernelId kernel;                       // of kKernel
  CollectiveId collective;               // of kCollective, kSend, kReceive
  DrawId draw;                           // of a kernel that draws random numbers
  std::vector<std::string> fused_paths;  // of the operators that were fused into the main one
  Operands inputs;                       // epilogues' extra inputs come last
  Operands outputs;
  Operands after;  // must be written before it, but it does not read them
  BufferId workspace;
  Phase phase = Phase::kForward;
  bool recomputed = false;
  BlockId block;  // of the op, or of the op whose gradient it computes; kNone: in no block
  OpCost cost;
};

struct ProgramState {
  std::string path;
  // The path of the recorded state that this state is, or is a slice of.
  std::string origin;
  Role role = Role::kParameter;  // parameter, optimizer state, statistic or cache
  ProgramValueId input;          // kNone: only written
  ProgramValueId updated;        // in the same bytes as `input`
};

struct NamedValue {
  std::string name;
  ProgramValueId value;
};

struct Program {
  std::string name;
  Table<ProgramValueId, ProgramValue> values;
  Table<StreamId, std::string> streams = {"compute"};
  Table<KernelId, PlannedKernel> kernels;  // each request once, in the order of first use
  Table<CollectiveId, CollectiveRequest> collectives;  // each once
  Mesh mesh;                                           // of one rank, unless a Plan says otherwise
  Table<PartId, PartRule> parts;                       // each once; see RankRuleTable
  Table<FlatId, FlatRule> flats;                       // each once
  Table<DrawId, DrawRule> draws;
  Table<InstructionId, Instruction> instructions;
  Table<BufferId, Buffer> buffers;
  std::vector<NamedValue> inputs;
  Table<ProgramStateId, ProgramState> states;
  std::vector<NamedValue> outputs;
  int threads = 1;
  SpaceBytes arenas;  // planned size of each arena

  const ProgramValue& value(ProgramValueId id) const { return values[id]; }
  // Returns the tensor that contains the value: `within`, or the value itself.
  ProgramValueId TensorOf(ProgramValueId value) const {
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
  // Returns the id of the request; adds it if there is no equal one.
  CollectiveId FindOrAddCollective(const CollectiveRequest& request);
  // Returns the id of the stream of this name; adds it if there is none.
  StreamId FindOrAddStream(absl::string_view name);
  // Returns the groups of `flats`, in the order of first use.
  std::vector<std::shared_ptr<const FlatGroup>> FlatGroups() const;
  // Returns the address of the first byte of a value; after planning.
  ArenaAddress AddressOf(ProgramValueId value) const;
  // Returns the total bytes of all arenas; after planning.
  int64_t arena_bytes() const { return arenas.total(); }
  // Return kNone if there is none of that name.
  ProgramValueId FindInput(absl::string_view name) const;
  ProgramValueId FindOutput(absl::string_view name) const;

  // One line for each input, state, instruction, output and buffer; see docs/architecture.md.
  std::string ToString() const;
  std::string Fingerprint() const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PROGRAM_H_
