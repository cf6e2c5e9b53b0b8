#include "core/runtime/memory_check.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/verify/verify.h"
#include "core/runtime/strided_runs.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr char kFencePattern = static_cast<char>(0xA7);
constexpr int64_t kChunkBytes = 1 << 16;  // how much is copied or compared at a time

// Returns bytes for a buffer whose contents must not be used: the largest value of an integer
// dtype, or a NaN, which all-ones bytes are in every floating dtype.
std::vector<char> PoisonBytes(DType dtype, int64_t bytes) {
  std::vector<char> poison(bytes, static_cast<char>(0xFF));
  const int64_t size = SizeOf(dtype);
  if (dtype == DType::kI32 || dtype == DType::kI64) {
    for (int64_t sign = size - 1; sign < bytes; sign += size) poison[sign] = 0x7F;
  }
  return poison;
}

ArenaAddress AddressOf(const Buffer& buffer) { return {buffer.space, buffer.offset}; }

// A step of a Program on an engine with red zones, instruction by instruction.
class FencedRun {
 public:
  FencedRun(Engine& engine, absl::string_view name, int64_t fence_bytes)
      : engine_(engine),
        executor_(engine.executor(name)),
        program_(executor_.program()),
        fence_bytes_(fence_bytes) {}

  absl::Status Run(const SetInputs& set_inputs) {
    const int32_t count = static_cast<int32_t>(program_.instructions.size());
    begins_.resize(count + 2);
    ends_.resize(count + 2);
    for (const BufferId b : program_.buffers.ids()) {
      begins_[program_.buffers[b].first + 1].push_back(b);
      ends_[program_.buffers[b].last + 1].push_back(b);
    }
    dtypes_.assign(program_.buffers.size(), DType::kU8);  // a workspace holds bytes
    for (const ProgramValue& value : program_.values) {
      if (value.buffer != kNone) dtypes_[value.buffer] = value.type.dtype;
    }
    for (int32_t time = -1; time <= count; ++time) {
      for (BufferId b : begins_[time + 1]) RETURN_IF_ERROR(FillAtStart(b));
      if (time == -1) RETURN_IF_ERROR(set_inputs(engine_));
      if (time >= 0 && time < count) {
        RETURN_IF_ERROR(executor_.RunInstruction(InstructionId(time)));
      }
      RETURN_IF_ERROR(engine_.backend().Synchronize());
      for (BufferId b : ends_[time + 1]) RETURN_IF_ERROR(CheckAtEnd(b, time == count));
    }
    return absl::OkStatus();
  }

 private:
  // Returns whether a buffer keeps its contents from step to step: states and caches do.
  bool KeepsContents(const Buffer& buffer) const {
    return buffer.state || buffer.category == Category::kCache;
  }

  // Called when the live range of a buffer begins: fills its fences with the pattern and, unless it
  // keeps its contents, the buffer with poison.
  absl::Status FillAtStart(BufferId b) {
    const Buffer& buffer = program_.buffers[b];
    const std::vector<char> fence(fence_bytes_, kFencePattern);
    RETURN_IF_ERROR(engine_.WriteArena(AddressOf(buffer) + -fence_bytes_, fence));
    RETURN_IF_ERROR(engine_.WriteArena(AddressOf(buffer) + buffer.bytes, fence));
    if (KeepsContents(buffer)) return absl::OkStatus();
    return engine_.WriteArena(AddressOf(buffer), PoisonBytes(dtypes_[b], buffer.bytes));
  }

  // Called when the live range of a buffer ends: checks its fences, and poisons the buffer.
  absl::Status CheckAtEnd(BufferId b, bool after_step) {
    const Buffer& buffer = program_.buffers[b];
    for (const int64_t fence_offset :
         {buffer.offset - fence_bytes_, buffer.offset + buffer.bytes}) {
      const bool before = fence_offset < buffer.offset;
      std::vector<char> fence(fence_bytes_);
      RETURN_IF_ERROR(engine_.ReadArena({buffer.space, fence_offset}, absl::MakeSpan(fence)));
      for (int64_t k = 0; k < fence_bytes_; ++k) {
        if (fence[k] == kFencePattern) continue;
        return absl::DataLossError(
            absl::StrCat("program '", program_.name, "': something changed byte ",
                         before ? fence_bytes_ - k : k + 1, " ",
                         before ? "before the start" : "past the end", " of buffer #", b.index(),
                         " (", buffer.path, "), live in [", buffer.first, ", ", buffer.last, "]"));
      }
    }
    // Results are not overwritten: they are read after the step.
    if (KeepsContents(buffer) || after_step) return absl::OkStatus();
    return engine_.WriteArena(AddressOf(buffer), PoisonBytes(dtypes_[b], buffer.bytes));
  }

  Engine& engine_;
  Executor& executor_;
  const Program& program_;
  const int64_t fence_bytes_;
  std::vector<std::vector<BufferId>> begins_, ends_;  // by time + 1
  Table<BufferId, DType> dtypes_;
};

// Copies every state of `to` from the state of `from` with the same path.
absl::Status CopyStates(Engine& from, Engine& to) {
  for (const StateInfo& state : to.states()) {
    auto source = std::find_if(from.states().begin(), from.states().end(),
                               [&](const StateInfo& s) { return s.path == state.path; });
    TESSERA_CHECK(source != from.states().end());
    std::vector<char> chunk;
    for (int64_t offset = 0; offset < NumBytes(state.type); offset += kChunkBytes) {
      chunk.resize(std::min(kChunkBytes, NumBytes(state.type) - offset));
      RETURN_IF_ERROR(from.ReadState(*source, offset, absl::MakeSpan(chunk)));
      RETURN_IF_ERROR(to.WriteState(state, offset, chunk));
    }
  }
  return absl::OkStatus();
}

// Copies the caches of a Program. Both engines must have lowered it from the same Plan, so that
// their buffers have the same ids.
absl::Status CopyCaches(Engine& from, Engine& to, absl::string_view name) {
  const Program& source = from.executor(name).program();
  const Program& target = to.executor(name).program();
  for (const BufferId b : source.buffers.ids()) {
    if (source.buffers[b].category != Category::kCache) continue;
    std::vector<char> bytes(source.buffers[b].bytes);
    RETURN_IF_ERROR(from.ReadArena(AddressOf(source.buffers[b]), absl::MakeSpan(bytes)));
    RETURN_IF_ERROR(to.WriteArena(AddressOf(target.buffers[b]), bytes));
  }
  return absl::OkStatus();
}

// Returns DataLoss, beginning with `name`, unless `bytes` bytes at both addresses are equal.
absl::Status CompareBytes(Engine& a, ArenaAddress a_address, Engine& b, ArenaAddress b_address,
                          int64_t bytes, const std::string& name) {
  std::vector<char> from_a, from_b;
  for (int64_t offset = 0; offset < bytes; offset += kChunkBytes) {
    const int64_t size = std::min(kChunkBytes, bytes - offset);
    from_a.resize(size);
    from_b.resize(size);
    RETURN_IF_ERROR(a.ReadArena(a_address + offset, absl::MakeSpan(from_a)));
    RETURN_IF_ERROR(b.ReadArena(b_address + offset, absl::MakeSpan(from_b)));
    if (from_a != from_b) {
      const int64_t first =
          std::mismatch(from_a.begin(), from_a.end(), from_b.begin()).first - from_a.begin();
      return absl::DataLossError(absl::StrCat(name, " differs from byte ", offset + first));
    }
  }
  return absl::OkStatus();
}

// Returns a view, without an address, of the elements of a state that the engine's rank holds,
// without padding.
TensorView ViewOfHeldElements(const Engine& engine, const StateInfo& state) {
  TensorView view = {nullptr, state.type.dtype, state.type.shape,
                     RowMajorStrides(state.type.shape)};
  if (!state.part.has_value() || state.flat.has_value()) return view;
  const Mesh& mesh = engine.run().programs.front().mesh;
  view.shape = state.part->At(mesh, mesh.CoordinatesOf(engine.options().rank.rank)).extent;
  return view;
}

// Returns a run of this Program alone, so that the arena has the size of this Program's peak.
CompiledRun RunOfOneProgram(const CompiledRun& run, absl::string_view name) {
  CompiledRun alone;
  alone.plan = run.plan;
  alone.state_bytes = run.state_bytes;
  for (const Graph& graph : run.graphs) {
    if (graph.name() == name) alone.graphs.push_back(graph);
  }
  alone.programs.push_back(*run.FindProgram(name));
  alone.arenas = alone.programs[0].arenas;
  return alone;
}

}  // namespace

absl::StatusOr<CompiledRun> WithFences(const CompiledRun& run, int64_t fence_bytes) {
  CompiledRun fenced = run;
  StateLayout states(fence_bytes);
  for (const Program& program : fenced.programs) RETURN_IF_ERROR(states.Add(program));
  fenced.state_bytes = states.bytes().total();
  fenced.arenas = SpaceBytes();
  for (Program& program : fenced.programs) {
    PlanMemory(states, program);
    RETURN_IF_ERROR(VerifyProgram(program));
    fenced.arenas.RaiseTo(program.arenas);
  }
  return fenced;
}

absl::Status RunFenced(Engine& engine, absl::string_view program, int64_t fence_bytes,
                       const SetInputs& set_inputs) {
  return FencedRun(engine, program, fence_bytes).Run(set_inputs);
}

absl::Status CompareBits(Engine& a, Engine& b, absl::string_view program) {
  for (const StateInfo& state : b.states()) {
    auto source = std::find_if(a.states().begin(), a.states().end(),
                               [&](const StateInfo& s) { return s.path == state.path; });
    TESSERA_CHECK(source != a.states().end());
    RETURN_IF_ERROR(ForEachRun(
        ViewOfHeldElements(a, *source), [&](int64_t offset, int64_t /*position*/, int64_t bytes) {
          return CompareBytes(a, source->address + offset, b, state.address + offset, bytes,
                              absl::StrCat("state '", state.path, "'"));
        }));
  }
  const Program& in_a = a.executor(program).program();
  const Program& in_b = b.executor(program).program();
  for (size_t i = 0; i < in_a.outputs.size(); ++i) {
    const ProgramValueId id = in_a.outputs[i].value;
    const ArenaAddress address_a = a.executor(program).binding().AddressOf(id);
    const ArenaAddress address_b = b.executor(program).binding().AddressOf(in_b.outputs[i].value);
    RETURN_IF_ERROR(ForEachRun(
        a.executor(program).ViewOf(id), [&](int64_t offset, int64_t /*position*/, int64_t bytes) {
          return CompareBytes(a, address_a + offset, b, address_b + offset, bytes,
                              absl::StrCat("output '", in_a.outputs[i].name, "'"));
        }));
  }
  return absl::OkStatus();
}

namespace {

// Records for each arena whether a guarded step has written the last byte of a buffer that ends at
// the planned peak. Buffers that need not be written to their end are exempt: they count as
// written.
class PlannedEnds {
 public:
  explicit PlannedEnds(const Executor& executor) : program_(executor.program()) {
    for (const InstructionId i : program_.instructions.ids()) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.workspace != kNone) partly_used_.insert(instruction.workspace);
      if (executor.own_parts().UnreadIn(i).size() == 0) continue;
      partly_used_.insert(program_.value(instruction.outputs[0]).buffer);
    }
    for (const ProgramValueId id : program_.values.ids()) {
      const ProgramValue& value = program_.values[id];
      if (value.buffer == kNone) continue;
      const Shape& held = executor.binding().ShapeOf(id);
      if (value.flat != kNone || held != value.type.shape) partly_used_.insert(value.buffer);
    }
    ExemptBuffersThatReceivePadding();
  }

  // Inspects memory in which a step has run, and which was filled with `pattern` before.
  absl::Status InspectMemory(Engine& guarded, char pattern) {
    for (const BufferId b : program_.buffers.ids()) {
      const Buffer& buffer = program_.buffers[b];
      const int64_t end = buffer.offset + buffer.bytes;
      if (buffer.bytes == 0 || end <= program_.arenas[buffer.space] - kBufferAlignment) continue;
      path_[buffer.space] = buffer.path;
      char last = 0;
      RETURN_IF_ERROR(guarded.ReadArena({buffer.space, end - 1}, absl::MakeSpan(&last, 1)));
      if (last != pattern || partly_used_.contains(b)) {
        reached_[buffer.space] = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Check() const {
    for (const MemorySpace space : kAllMemorySpaces) {
      if (program_.arenas[space] == 0 || reached_[space]) continue;
      return absl::DataLossError(
          absl::StrCat("program '", program_.name, "': buffer ", path_[space],
                       " ends at the planned peak, but a step did not write its last byte"));
    }
    return absl::OkStatus();
  }

 private:
  // Exempts buffers that receive padding which some rank has not written: outputs of collectives,
  // of copies, and of kernels that copy, such as those that pack the operand of an all-to-all.
  // Requires that partly_used_ has the buffers that are exempt by themselves, since padding moves
  // on from them as well.
  void ExemptBuffersThatReceivePadding() {
    const Table<PartId, bool> uneven = UnevenParts();
    absl::flat_hash_set<BufferId> padded = partly_used_;  // on some rank
    for (const ProgramValue& value : program_.values) {
      if (value.part != kNone && uneven[value.part]) padded.insert(value.buffer);
    }
    for (const Instruction& instruction : program_.instructions) {
      const bool moves_padding = instruction.kind != InstructionKind::kKernel ||
                                 program_.kernels[instruction.kernel].kernel->op() == "copy";
      for (const ProgramValueId input : instruction.inputs) {
        if (!moves_padding || !padded.contains(program_.value(input).buffer)) continue;
        for (const ProgramValueId output : instruction.outputs) {
          padded.insert(program_.value(output).buffer);
          partly_used_.insert(program_.value(output).buffer);
        }
      }
    }
  }

  // Returns for each part rule whether some rank holds less than the padded part.
  Table<PartId, bool> UnevenParts() const {
    Table<PartId, bool> uneven;
    for (const PartRule& part : program_.parts) {
      const Shape local = part.LocalShape(program_.mesh);
      bool some_rank_holds_less = false;
      for (int rank = 0; !some_rank_holds_less && rank < program_.mesh.size(); ++rank) {
        some_rank_holds_less =
            part.At(program_.mesh, program_.mesh.CoordinatesOf(rank)).extent != local;
      }
      uneven.push_back(some_rank_holds_less);
    }
    return uneven;
  }

  const Program& program_;
  // Buffers that need not be written to their end: a kernel may leave its workspace unused, this
  // rank may hold less than the padded part of a value, an all-gather may omit elements that the
  // rank does not read, and padding is moved from them.
  absl::flat_hash_set<BufferId> partly_used_;
  BySpace<bool> reached_;
  BySpace<std::string> path_;
};

}  // namespace

absl::Status RunGuarded(Engine& engine, absl::string_view program, const SetInputs& set_inputs) {
  PlannedEnds ends(engine.executor(program));
  // The value of a byte that a step writes does not depend on its previous value, so it differs
  // from at least one of the two patterns.
  for (const int pattern : {0xA5, 0x5A}) {
    EngineOptions options = engine.options();
    options.guarded = true;
    options.fill = pattern;
    ASSIGN_OR_RETURN(
        std::unique_ptr<Engine> guarded,
        Engine::Create(RunOfOneProgram(engine.run(), program), &engine.backend(), options));
    RETURN_IF_ERROR(CopyStates(engine, *guarded));
    RETURN_IF_ERROR(CopyCaches(engine, *guarded, program));
    RETURN_IF_ERROR(set_inputs(*guarded));
    RETURN_IF_ERROR(guarded->Run(program));
    RETURN_IF_ERROR(ends.InspectMemory(*guarded, static_cast<char>(pattern)));
  }
  return ends.Check();
}

absl::Status CheckMemory(Engine& engine, absl::string_view program, const SetInputs& set_inputs) {
  constexpr int64_t kFence = 4 * kBufferAlignment;
  RETURN_IF_ERROR(RunGuarded(engine, program, set_inputs));
  ASSIGN_OR_RETURN(CompiledRun run, WithFences(RunOfOneProgram(engine.run(), program), kFence));
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> fenced,
                   Engine::Create(std::move(run), &engine.backend(), engine.options()));
  RETURN_IF_ERROR(CopyStates(engine, *fenced));
  RETURN_IF_ERROR(CopyCaches(engine, *fenced, program));
  RETURN_IF_ERROR(RunFenced(*fenced, program, kFence, set_inputs));
  RETURN_IF_ERROR(set_inputs(engine));
  RETURN_IF_ERROR(engine.Run(program));
  return CompareBits(engine, *fenced, program);
}

}  // namespace tessera
