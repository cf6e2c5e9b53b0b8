#include "core/runtime/engine.h"

#include <algorithm>
#include <cstring>
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

template <typename From>
void ToDevice(absl::Span<const From> values, DType dtype, std::vector<char>& bytes) {
  bytes.resize(values.size() * SizeOf(dtype));
  WithElementType(dtype, [&](auto element) {
    using To = decltype(element);
    To* out = reinterpret_cast<To*>(bytes.data());
    for (size_t i = 0; i < values.size(); ++i) out[i] = Convert<To>(values[i]);
  });
}

// Memory is filled by pieces of this size.
constexpr int64_t kPiece = 1 << 16;

}  // namespace

std::vector<StateInfo> StatesOf(const CompiledRun& run) {
  std::vector<StateInfo> states;
  absl::flat_hash_set<absl::string_view> seen;
  for (const Program& program : run.programs) {
    for (const ProgramState& state : program.states) {
      if (state.role == Role::kCache || !seen.insert(state.path).second) continue;
      const ProgramValue& value = program.value(state.input != kNone ? state.input : state.updated);
      states.push_back({state.path, state.role, value.type, program.buffers[value.buffer].offset});
    }
  }
  return states;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(CompiledRun run, Backend* backend,
                                                       const EngineOptions& options) {
  auto engine = absl::WrapUnique(new Engine());
  engine->run_ = std::move(run);
  engine->backend_ = backend;
  ASSIGN_OR_RETURN(engine->arena_, backend->Allocate(engine->run_.arena_bytes, options.guarded));
  if (options.fill >= 0) {
    const std::vector<char> piece(kPiece, static_cast<char>(options.fill));
    for (int64_t at = 0; at < engine->run_.arena_bytes; at += kPiece) {
      const int64_t bytes = std::min(kPiece, engine->run_.arena_bytes - at);
      RETURN_IF_ERROR(engine->WriteArena(at, absl::MakeConstSpan(piece.data(), bytes)));
    }
  }
  engine->states_ = StatesOf(engine->run_);
  for (const Program& program : engine->run_.programs) {
    ASSIGN_OR_RETURN(
        engine->executors_[program.name],
        Executor::Create(&program, backend, engine->arena_->data(), options.collectives));
  }
  return engine;
}

bool Engine::HasProgram(absl::string_view program) const { return executors_.contains(program); }

Executor& Engine::executor(absl::string_view program) {
  auto it = executors_.find(program);
  TESSERA_CHECK(it != executors_.end()) << "no program " << std::string(program);
  return *it->second;
}

absl::Status Engine::CopyInput(absl::string_view program, absl::string_view input, size_t count) {
  Executor& exec = executor(program);
  const int32_t value = exec.program().FindInput(input);
  const int64_t elements = NumElements(exec.program().value(value).type.shape);
  if (static_cast<int64_t>(count) != elements) {
    return absl::InvalidArgumentError(absl::StrCat("input '", input, "' of program '", program,
                                                   "' has ", elements, " elements, not ", count));
  }
  return backend_->CopyToDevice(exec.AddressOf(value), staging_.data(),
                                static_cast<int64_t>(staging_.size()));
}

absl::StatusOr<DType> Engine::InputDType(absl::string_view program, absl::string_view input) {
  const Program& p = executor(program).program();
  const int32_t value = p.FindInput(input);
  if (value == kNone) {
    return absl::NotFoundError(absl::StrCat("program '", program, "' has no input '", input, "'"));
  }
  return p.value(value).type.dtype;
}

absl::Status Engine::SetInput(absl::string_view program, absl::string_view input,
                              absl::Span<const int32_t> values) {
  ASSIGN_OR_RETURN(const DType dtype, InputDType(program, input));
  ToDevice(values, dtype, staging_);
  return CopyInput(program, input, values.size());
}

absl::Status Engine::SetInput(absl::string_view program, absl::string_view input,
                              absl::Span<const double> values) {
  ASSIGN_OR_RETURN(const DType dtype, InputDType(program, input));
  ToDevice(values, dtype, staging_);
  return CopyInput(program, input, values.size());
}

absl::Status Engine::SetScalarIfRead(absl::string_view program, absl::string_view input,
                                     int64_t value) {
  const absl::StatusOr<DType> dtype = InputDType(program, input);
  if (!dtype.ok()) return absl::OkStatus();
  ToDevice(absl::MakeConstSpan(&value, 1), *dtype, staging_);
  return CopyInput(program, input, 1);
}

absl::Status Engine::Run(absl::string_view program) { return executor(program).Run(); }

absl::Status Engine::ReadOutput(absl::string_view program, absl::string_view output,
                                absl::Span<double> values) {
  Executor& exec = executor(program);
  const int32_t id = exec.program().FindOutput(output);
  if (id == kNone) {
    return absl::NotFoundError(
        absl::StrCat("program '", program, "' has no output '", output, "'"));
  }
  return ReadValue(program, output, id, values);
}

absl::StatusOr<int32_t> Engine::StateValue(absl::string_view program, absl::string_view path) {
  for (const ProgramState& state : executor(program).program().states) {
    if (state.path == path) return state.input != kNone ? state.input : state.updated;
  }
  return absl::NotFoundError(absl::StrCat("program '", program, "' has no state '", path, "'"));
}

absl::Status Engine::SetStateValues(absl::string_view program, absl::string_view path,
                                    absl::Span<const double> values) {
  ASSIGN_OR_RETURN(const int32_t id, StateValue(program, path));
  Executor& exec = executor(program);
  const TensorType& type = exec.program().value(id).type;
  if (NumElements(type.shape) != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "state '", path, "' has ", NumElements(type.shape), " elements, not ", values.size()));
  }
  ToDevice(values, type.dtype, staging_);
  return backend_->CopyToDevice(exec.AddressOf(id), staging_.data(), NumBytes(type));
}

absl::Status Engine::ReadStateValues(absl::string_view program, absl::string_view path,
                                     absl::Span<double> values) {
  ASSIGN_OR_RETURN(const int32_t id, StateValue(program, path));
  return ReadValue(program, path, id, values);
}

absl::Status Engine::ReadValue(absl::string_view program, absl::string_view what, int32_t value,
                               absl::Span<double> values) {
  Executor& exec = executor(program);
  const TensorType& type = exec.program().value(value).type;
  if (NumElements(type.shape) != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrCat("'", what, "' of program '", program, "' has ",
                                                   NumElements(type.shape), " elements, not ",
                                                   values.size()));
  }
  staging_.resize(NumBytes(type));
  RETURN_IF_ERROR(backend_->CopyToHost(staging_.data(), exec.AddressOf(value), NumBytes(type)));
  WithElementType(type.dtype, [&](auto element) {
    using From = decltype(element);
    const From* from = reinterpret_cast<const From*>(staging_.data());
    for (size_t i = 0; i < values.size(); ++i) values[i] = Convert<double>(from[i]);
  });
  return absl::OkStatus();
}

absl::Status Engine::ReadArena(int64_t offset, absl::Span<char> bytes) {
  return backend_->CopyToHost(bytes.data(), static_cast<char*>(arena_->data()) + offset,
                              static_cast<int64_t>(bytes.size()));
}

absl::Status Engine::WriteArena(int64_t offset, absl::Span<const char> bytes) {
  return backend_->CopyToDevice(static_cast<char*>(arena_->data()) + offset, bytes.data(),
                                static_cast<int64_t>(bytes.size()));
}

absl::Status Engine::ReadState(const StateInfo& state, int64_t byte_offset,
                               absl::Span<char> bytes) {
  TESSERA_CHECK(byte_offset >= 0 &&
                byte_offset + static_cast<int64_t>(bytes.size()) <= NumBytes(state.type));
  return ReadArena(state.offset + byte_offset, bytes);
}

absl::Status Engine::WriteState(const StateInfo& state, int64_t byte_offset,
                                absl::Span<const char> bytes) {
  TESSERA_CHECK(byte_offset >= 0 &&
                byte_offset + static_cast<int64_t>(bytes.size()) <= NumBytes(state.type));
  return WriteArena(state.offset + byte_offset, bytes);
}

absl::Status Engine::ClearCaches(absl::string_view program) {
  Executor& exec = executor(program);
  staging_.assign(kPiece, 0);
  for (const Buffer& buffer : exec.program().buffers) {
    if (buffer.category != Category::kCache) continue;
    for (int64_t at = 0; at < buffer.bytes; at += kPiece) {
      RETURN_IF_ERROR(
          WriteArena(buffer.offset + at,
                     absl::MakeConstSpan(staging_.data(), std::min(kPiece, buffer.bytes - at))));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
