#include "core/train/state_transfer.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/half.h"
#include "core/text/counted.h"
#include "core/train/stored_orders.h"

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

absl::Status LoadRun(const Checkpoint& checkpoint, const StateEntry& saved, const StateInfo& state,
                     const StoredRun& run, Engine& engine) {
  const int64_t saved_size = SizeOf(saved.type.dtype), size = SizeOf(state.type.dtype);
  std::vector<char> read, converted;
  for (int64_t first = 0; first < run.count; first += kChunkElements) {
    read.resize(std::min(kChunkElements, run.count - first) * saved_size);
    RETURN_IF_ERROR(
        checkpoint.ReadRange(state.path, (run.stored + first) * saved_size, absl::MakeSpan(read)));
    const bool same = saved.type.dtype == state.type.dtype;
    if (!same) Convert(saved.type.dtype, read, state.type.dtype, converted);
    RETURN_IF_ERROR(engine.WriteState(state, (run.loaded + first) * size, same ? read : converted));
  }
  return absl::OkStatus();
}

absl::Status LoadOne(const Checkpoint& checkpoint, const StateEntry& saved, const StateInfo& state,
                     absl::Span<const int> order, Engine& engine) {
  return ForEachRun(state.type.shape, order, [&](const StoredRun& run) {
    return LoadRun(checkpoint, saved, state, run, engine);
  });
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
  contents.state_version = request.state_version;
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

absl::Status CheckFits(const Checkpoint& checkpoint, const Model& model,
                       absl::Span<const StateInfo> states, Extra extra) {
  ASSIGN_OR_RETURN(const StoredOrders orders, StoredOrders::Create(checkpoint, model));
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
    const absl::Span<const int> order = orders.Find(state.path);
    if ((*saved)->type.shape != StoredShape(state.type.shape, order) ||
        !Convertible((*saved)->type.dtype, state.type.dtype)) {
      const TensorType stored = {state.type.dtype, StoredShape(state.type.shape, order)};
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint ", checkpoint.folder(), " has the state '", state.path, "' as ",
          TypeToString((*saved)->type), ", this run as ", TypeToString(state.type),
          order.empty() ? ""
                        : absl::StrCat(", which that version of the model's states holds as ",
                                       TypeToString(stored))));
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

absl::StatusOr<std::vector<std::string>> LoadState(const Checkpoint& checkpoint, const Model& model,
                                                   Engine& engine, Extra extra) {
  RETURN_IF_ERROR(CheckFits(checkpoint, model, engine.states(), extra));
  ASSIGN_OR_RETURN(const StoredOrders orders, StoredOrders::Create(checkpoint, model));
  std::vector<std::string> notes;
  std::string first_transposed;
  int64_t num_transposed = 0;
  for (const StateInfo& state : engine.states()) {
    ASSIGN_OR_RETURN(const StateEntry* saved, checkpoint.Find(state.path));
    if (saved->type.dtype != state.type.dtype && notes.empty()) {
      notes.push_back(absl::StrCat("the checkpoint holds ", DTypeName(saved->type.dtype),
                                   ", this device keeps ", DTypeName(state.type.dtype),
                                   ": state is converted"));
    }
    const absl::Span<const int> order = orders.Find(state.path);
    if (!order.empty() && num_transposed++ == 0) first_transposed = state.path;
    RETURN_IF_ERROR(LoadOne(checkpoint, *saved, state, order, engine));
  }
  if (num_transposed > 0) {
    notes.push_back(absl::StrCat("the checkpoint holds version ", checkpoint.state_version(),
                                 " of the model's states, and this is version ",
                                 model.state_version(), ": '", first_transposed, "' and ",
                                 Counted(num_transposed - 1, "other state"), " are transposed"));
  }
  return notes;
}

}  // namespace tessera
