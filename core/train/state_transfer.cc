#include "core/train/state_transfer.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/half.h"

namespace tessera {
namespace {

constexpr int64_t kChunkElements = int64_t{1} << 18;

template <typename T>
double ToDouble(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  if constexpr (std::is_class_v<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

template <typename T>
void FromDouble(double value, char* to) {
  // Through float, from which bf16 and f16 are rounded everywhere.
  const T converted =
      static_cast<T>(static_cast<std::conditional_t<std::is_class_v<T>, float, T>>(value));
  std::memcpy(to, &converted, sizeof(T));
}

double ReadFloating(DType dtype, const char* from) {
  switch (dtype) {
    case DType::kF64:
      return ToDouble<double>(from);
    case DType::kBF16:
      return ToDouble<BFloat16>(from);
    case DType::kF16:
      return ToDouble<Float16>(from);
    default:
      return ToDouble<float>(from);
  }
}

void WriteFloating(DType dtype, double value, char* to) {
  switch (dtype) {
    case DType::kF64:
      return FromDouble<double>(value, to);
    case DType::kBF16:
      return FromDouble<BFloat16>(value, to);
    case DType::kF16:
      return FromDouble<Float16>(value, to);
    default:
      return FromDouble<float>(value, to);
  }
}

void Convert(DType from_dtype, absl::Span<const char> from, DType to_dtype, std::vector<char>& to) {
  const int64_t from_size = SizeOf(from_dtype);
  const int64_t to_size = SizeOf(to_dtype);
  const int64_t elements = static_cast<int64_t>(from.size()) / from_size;
  to.resize(elements * to_size);
  for (int64_t i = 0; i < elements; ++i) {
    WriteFloating(to_dtype, ReadFloating(from_dtype, from.data() + i * from_size),
                  to.data() + i * to_size);
  }
}

absl::Status LoadOne(const Checkpoint& checkpoint, const StateEntry& saved, const StateInfo& state,
                     Engine& engine) {
  const int64_t elements = NumElements(state.type.shape);
  const int64_t saved_size = SizeOf(saved.type.dtype);
  std::vector<char> read, converted;
  for (int64_t first = 0; first < elements; first += kChunkElements) {
    read.resize(std::min(kChunkElements, elements - first) * saved_size);
    RETURN_IF_ERROR(checkpoint.ReadRange(state.path, first * saved_size, absl::MakeSpan(read)));
    if (saved.type.dtype == state.type.dtype) {
      RETURN_IF_ERROR(engine.WriteState(state, first * saved_size, read));
    } else {
      Convert(saved.type.dtype, read, state.type.dtype, converted);
      RETURN_IF_ERROR(engine.WriteState(state, first * SizeOf(state.type.dtype), converted));
    }
  }
  return absl::OkStatus();
}

absl::string_view RoleOf(const StateInfo& state) {
  return state.role == Role::kParameter ? kParameterRole : kOptimizerRole;
}

std::vector<StateEntry> EntriesOf(absl::Span<const StateInfo> states) {
  std::vector<StateEntry> entries;
  entries.reserve(states.size());
  for (const StateInfo& state : states) {
    entries.push_back({state.path, absl::StrCat(RoleOf(state)), state.type});
  }
  return entries;
}

bool Convertible(DType a, DType b) { return a == b || (IsFloating(a) && IsFloating(b)); }

}  // namespace

absl::Status CheckSavable(absl::Span<const StateInfo> states) {
  CheckpointContents contents;
  contents.state = EntriesOf(states);
  const absl::Status status = CheckContents(contents);
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("the run's state cannot be saved in a checkpoint: ", status.message()));
}

absl::StatusOr<SavedCheckpoint> SaveState(Engine& engine, const SaveRequest& request) {
  CheckpointContents contents;
  contents.step = request.step;
  contents.batches = request.batches;
  contents.data = request.data;
  contents.plan = request.plan;
  contents.config = request.config;
  const std::vector<StateInfo>& states = engine.states();
  contents.state = EntriesOf(states);
  SaveOptions options;
  options.keep = request.keep;
  return SaveCheckpoint(
      request.run_folder, contents,
      [&](int entry, int64_t byte_offset, absl::Span<char> out) {
        return engine.ReadState(states[entry], byte_offset, out);
      },
      options);
}

absl::Status CheckFits(const Checkpoint& checkpoint, absl::Span<const StateInfo> states,
                       Extra extra) {
  absl::flat_hash_set<absl::string_view> known;
  for (const StateInfo& state : states) {
    known.insert(state.path);
    const absl::StatusOr<const StateEntry*> saved = checkpoint.Find(state.path);
    if (!saved.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint ", checkpoint.folder(), " has no state '", state.path,
                       "', which this run has as ", TypeToString(state.type)));
    }
    if ((*saved)->role != RoleOf(state)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint ", checkpoint.folder(), " has the state '", state.path, "' in the role '",
          (*saved)->role, "', this run in the role '", RoleOf(state), "'"));
    }
    if ((*saved)->type.shape != state.type.shape ||
        !Convertible((*saved)->type.dtype, state.type.dtype)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint ", checkpoint.folder(), " has the state '", state.path, "' as ",
          TypeToString((*saved)->type), ", this run as ", TypeToString(state.type)));
    }
  }
  for (const StateEntry& saved : checkpoint.state()) {
    if (known.contains(saved.path)) continue;
    if (extra == Extra::kLeaveOptimizer && saved.role == kOptimizerRole) continue;
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint ", checkpoint.folder(),
                                                      " has the state '", saved.path,
                                                      "', which this run does not have"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LoadState(const Checkpoint& checkpoint, Engine& engine, Extra extra) {
  RETURN_IF_ERROR(CheckFits(checkpoint, engine.states(), extra));
  std::string note;
  for (const StateInfo& state : engine.states()) {
    ASSIGN_OR_RETURN(const StateEntry* saved, checkpoint.Find(state.path));
    if (saved->type.dtype != state.type.dtype && note.empty()) {
      note =
          absl::StrCat("the checkpoint holds ", DTypeName(saved->type.dtype),
                       ", this device keeps ", DTypeName(state.type.dtype), ": state is converted");
    }
    RETURN_IF_ERROR(LoadOne(checkpoint, *saved, state, engine));
  }
  return note;
}

}  // namespace tessera
