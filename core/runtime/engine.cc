#include "core/runtime/engine.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"

namespace tessera {
namespace {

// Sets `bytes` to the values, converted to `dtype`.
template <typename From>
void ConvertTo(absl::Span<const From> values, DType dtype, std::vector<char>& bytes) {
  bytes.resize(values.size() * SizeOf(dtype));
  WithElementType(dtype, [&](auto element) {
    using To = decltype(element);
    To* out = reinterpret_cast<To*>(bytes.data());
    for (size_t i = 0; i < values.size(); ++i) out[i] = Convert<To>(values[i]);
  });
}

// Memory is filled in chunks of this many bytes.
constexpr int64_t kChunkBytes = 1 << 16;

// Returns the rule by which every rank holds all of a state. It applies to a member of a flat group
// that no other axis splits.
std::optional<PartRule> FullPart(const CompiledRun& run, const Program& program,
                                 absl::string_view path) {
  for (const Graph& graph : run.graphs) {
    if (graph.name() != program.name) continue;
    const State* const state = graph.FindState(path);
    if (state == nullptr) break;
    const Shape& shape = state->type.shape;
    return PartRule{shape, Shape(shape.size(), 0), shape, MeshLayout(program.mesh.num_axes())};
  }
  return std::nullopt;
}

}  // namespace

std::vector<StateInfo> StatesOf(const CompiledRun& run) {
  std::vector<StateInfo> states;
  absl::flat_hash_set<absl::string_view> seen;
  for (const Program& program : run.programs) {
    for (const ProgramState& state : program.states) {
      if (state.role == Role::kCache || !seen.insert(state.path).second) continue;
      const ProgramValueId index = state.input != kNone ? state.input : state.updated;
      const ProgramValue& value = program.value(index);
      StateInfo& info = states.emplace_back();
      info.path = state.path;
      info.origin = state.origin;
      info.role = state.role;
      info.type = value.type;
      info.address = program.AddressOf(index);
      if (value.part != kNone) info.part = program.parts[value.part];
      if (value.flat != kNone) {
        info.flat = program.flats[value.flat];
        if (!info.part.has_value()) info.part = FullPart(run, program, state.path);
      }
    }
  }
  return states;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(CompiledRun run, Backend* backend,
                                                       const EngineOptions& options) {
  auto engine = absl::WrapUnique(new Engine());
  engine->run_ = std::move(run);
  engine->backend_ = backend;
  engine->options_ = options;
  // A rank that fails must not leave its peers in a collective, so all ranks agree before they
  // allocate the shared arena, and before any of them frees it.
  RETURN_IF_ERROR(engine->AgreeOnStatus(engine->AllocatePrivateArenas()));
  absl::Status status = engine->AllocateArena(MemorySpace::kShared);
  if (status.ok()) status = engine->Bind();
  RETURN_IF_ERROR(engine->AgreeOnStatus(status));
  return engine;
}

absl::Status Engine::AgreeOnStatus(const absl::Status& mine) const {
  return options_.agree == nullptr ? mine : options_.agree(mine);
}

absl::Status Engine::AllocatePrivateArenas() {
  for (const MemorySpace space : kAllMemorySpaces) {
    if (space != MemorySpace::kShared) RETURN_IF_ERROR(AllocateArena(space));
  }
  return absl::OkStatus();
}

absl::Status Engine::Bind() {
  Arenas arenas;
  for (const MemorySpace space : kAllMemorySpaces) {
    if (arenas_[space] != nullptr) arenas[space] = static_cast<char*>(arenas_[space]->data());
  }
  states_ = StatesOf(run_);
  for (StateInfo& state : states_) {
    if (!state.flat.has_value()) continue;
    const Mesh& mesh = run_.programs.front().mesh;
    const MeshCoordinates coordinates = mesh.CoordinatesOf(options_.rank.rank);
    const FlatGroup::Range elements = state.flat->InPartAt(
        mesh, coordinates, NumElements(state.part->At(mesh, coordinates).extent));
    state.type.shape = {elements.size()};
    state.address = state.address + elements.begin * SizeOf(state.type.dtype);
  }
  for (const Program& program : run_.programs) {
    ASSIGN_OR_RETURN(executors_[program.name],
                     Executor::Create(&program, backend_, arenas, options_.rank));
  }
  return absl::OkStatus();
}

absl::Status Engine::AllocateArena(MemorySpace space) {
  const int64_t bytes = run_.arenas[space];
  if (bytes == 0 && space != MemorySpace::kDevice) return absl::OkStatus();
  if (options_.allocate != nullptr) {
    ASSIGN_OR_RETURN(arenas_[space], options_.allocate(space, bytes, options_.guarded));
  } else {
    ASSIGN_OR_RETURN(arenas_[space], backend_->Allocate(bytes, options_.guarded));
  }
  if (options_.fill < 0) return absl::OkStatus();
  const std::vector<char> chunk(kChunkBytes, static_cast<char>(options_.fill));
  for (int64_t offset = 0; offset < bytes; offset += kChunkBytes) {
    const int64_t size = std::min(kChunkBytes, bytes - offset);
    RETURN_IF_ERROR(WriteArena({space, offset}, absl::MakeConstSpan(chunk.data(), size)));
  }
  return absl::OkStatus();
}

int64_t Engine::ResidentArenaBytes() const {
  int64_t bytes = 0;
  for (const MemorySpace space : kAllMemorySpaces) {
    if (arenas_[space] != nullptr) bytes += arenas_[space]->host_resident_bytes();
  }
  return bytes;
}

bool Engine::HasProgram(absl::string_view program) const { return executors_.contains(program); }

Executor& Engine::executor(absl::string_view program) {
  auto it = executors_.find(program);
  TESSERA_CHECK(it != executors_.end()) << "no program " << std::string(program);
  return *it->second;
}

TensorView Engine::PaddedViewOf(absl::string_view program, ProgramValueId value) {
  Executor& exec = executor(program);
  TensorView view = exec.ViewOf(value);
  const ProgramValue& v = exec.program().value(value);
  if (v.flat == kNone) view.shape = v.type.shape;
  return view;
}

absl::Status Engine::WriteValue(absl::string_view program, absl::string_view name,
                                ProgramValueId value, size_t count) {
  const TensorView view = PaddedViewOf(program, value);
  if (static_cast<int64_t>(count) != view.elements()) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' of program '", program, "' has ",
                                                   view.elements(), " elements, not ", count));
  }
  return backend_->CopyToDevice(view.data, staging_.data(), view.elements() * SizeOf(view.dtype));
}

absl::StatusOr<DType> Engine::InputDType(absl::string_view program, absl::string_view input) {
  const Program& p = executor(program).program();
  const ProgramValueId value = p.FindInput(input);
  if (value == kNone) {
    return absl::NotFoundError(absl::StrCat("program '", program, "' has no input '", input, "'"));
  }
  return p.value(value).type.dtype;
}

absl::Status Engine::SetInput(absl::string_view program, absl::string_view input,
                              absl::Span<const int32_t> values) {
  ASSIGN_OR_RETURN(const DType dtype, InputDType(program, input));
  ConvertTo(values, dtype, staging_);
  return WriteValue(program, input, executor(program).program().FindInput(input), values.size());
}

absl::Status Engine::SetInput(absl::string_view program, absl::string_view input,
                              absl::Span<const double> values) {
  ASSIGN_OR_RETURN(const DType dtype, InputDType(program, input));
  ConvertTo(values, dtype, staging_);
  return WriteValue(program, input, executor(program).program().FindInput(input), values.size());
}

absl::Status Engine::SetInput(absl::string_view program, absl::string_view input, DType dtype,
                              absl::Span<const char> bytes) {
  ASSIGN_OR_RETURN(const DType kept, InputDType(program, input));
  const size_t count = bytes.size() / SizeOf(dtype);
  WithElementType(dtype, [&](auto element) {
    using From = decltype(element);
    ConvertTo(absl::MakeConstSpan(reinterpret_cast<const From*>(bytes.data()), count), kept,
              staging_);
  });
  return WriteValue(program, input, executor(program).program().FindInput(input), count);
}

absl::Status Engine::SetScalarIfRead(absl::string_view program, absl::string_view input,
                                     int64_t value) {
  const absl::StatusOr<DType> dtype = InputDType(program, input);
  if (!dtype.ok()) return absl::OkStatus();
  ConvertTo(absl::MakeConstSpan(&value, 1), *dtype, staging_);
  return WriteValue(program, input, executor(program).program().FindInput(input), 1);
}

absl::Status Engine::Run(absl::string_view program) { return executor(program).Run(); }

absl::Status Engine::ReadOutput(absl::string_view program, absl::string_view output,
                                absl::Span<double> values) {
  Executor& exec = executor(program);
  const ProgramValueId id = exec.program().FindOutput(output);
  if (id == kNone) {
    return absl::NotFoundError(
        absl::StrCat("program '", program, "' has no output '", output, "'"));
  }
  return ReadValue(program, output, id, values);
}

absl::StatusOr<ProgramValueId> Engine::StateValue(absl::string_view program,
                                                  absl::string_view path) {
  for (const ProgramState& state : executor(program).program().states) {
    if (state.path == path) return state.input != kNone ? state.input : state.updated;
  }
  return absl::NotFoundError(absl::StrCat("program '", program, "' has no state '", path, "'"));
}

absl::Status Engine::SetStateValues(absl::string_view program, absl::string_view path,
                                    absl::Span<const double> values) {
  ASSIGN_OR_RETURN(const ProgramValueId id, StateValue(program, path));
  ConvertTo(values, executor(program).program().value(id).type.dtype, staging_);
  return WriteValue(program, path, id, values.size());
}

absl::Status Engine::ReadStateValues(absl::string_view program, absl::string_view path,
                                     absl::Span<double> values) {
  ASSIGN_OR_RETURN(const ProgramValueId id, StateValue(program, path));
  return ReadValue(program, path, id, values);
}

absl::Status Engine::ReadValue(absl::string_view program, absl::string_view name,
                               ProgramValueId value, absl::Span<double> values) {
  const TensorView view = PaddedViewOf(program, value);
  if (view.elements() != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' of program '", program, "' has ",
                                                   view.elements(), " elements, not ",
                                                   values.size()));
  }
  staging_.resize(view.elements() * SizeOf(view.dtype));
  RETURN_IF_ERROR(
      backend_->CopyToHost(staging_.data(), view.data, static_cast<int64_t>(staging_.size())));
  ToDoubles(view.dtype, staging_.data(), values);
  return absl::OkStatus();
}

absl::Status Engine::ReadArena(ArenaAddress address, absl::Span<char> bytes) {
  const char* const arena = static_cast<const char*>(arenas_[address.space]->data());
  return backend_->CopyToHost(bytes.data(), arena + address.offset,
                              static_cast<int64_t>(bytes.size()));
}

absl::Status Engine::WriteArena(ArenaAddress address, absl::Span<const char> bytes) {
  char* const arena = static_cast<char*>(arenas_[address.space]->data());
  return backend_->CopyToDevice(arena + address.offset, bytes.data(),
                                static_cast<int64_t>(bytes.size()));
}

absl::Status Engine::ReadState(const StateInfo& state, int64_t byte_offset,
                               absl::Span<char> bytes) {
  TESSERA_CHECK(byte_offset >= 0 &&
                byte_offset + static_cast<int64_t>(bytes.size()) <= NumBytes(state.type));
  return ReadArena(state.address + byte_offset, bytes);
}

absl::Status Engine::WriteState(const StateInfo& state, int64_t byte_offset,
                                absl::Span<const char> bytes) {
  TESSERA_CHECK(byte_offset >= 0 &&
                byte_offset + static_cast<int64_t>(bytes.size()) <= NumBytes(state.type));
  return WriteArena(state.address + byte_offset, bytes);
}

absl::Status Engine::ClearCaches(absl::string_view program) {
  Executor& exec = executor(program);
  staging_.assign(kChunkBytes, 0);
  for (const Buffer& buffer : exec.program().buffers) {
    if (buffer.category != Category::kCache) continue;
    for (int64_t offset = 0; offset < buffer.bytes; offset += kChunkBytes) {
      const int64_t size = std::min(kChunkBytes, buffer.bytes - offset);
      RETURN_IF_ERROR(WriteArena({buffer.space, buffer.offset + offset},
                                 absl::MakeConstSpan(staging_.data(), size)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
