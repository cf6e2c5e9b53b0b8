#include "core/train/state/load_state.h"

#include <algorithm>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"
#include "core/text/counted.h"
#include "core/train/optimizer.h"
#include "core/train/state/engine_states.h"
#include "core/train/state/stored_orders.h"

namespace tessera {
namespace {

constexpr int64_t kChunkElements = int64_t{1} << 18;

void ConvertAll(DType from_dtype, absl::Span<const char> from, DType to_dtype,
                std::vector<char>& to) {
  WithElementType(from_dtype, [&](auto from_type) {
    using From = decltype(from_type);
    WithElementType(to_dtype, [&](auto to_type) {
      using To = decltype(to_type);
      const size_t elements = from.size() / sizeof(From);
      to.resize(elements * sizeof(To));
      for (size_t i = 0; i < elements; ++i) {
        From value;
        std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
        const To converted = Convert<To>(value);
        std::memcpy(to.data() + i * sizeof(To), &converted, sizeof(To));
      }
    });
  });
}

// Fills `out` with a shard of a run's state, of which the checkpoint stores the dimensions in
// another order.
absl::Status ReadInOrder(const Checkpoint& checkpoint, const StateEntry& saved,
                         const StateShard& shard, absl::Span<const int> order,
                         absl::Span<char> out) {
  const int64_t size = SizeOf(saved.type.dtype);
  for (int64_t first = 0; first < shard.size();) {
    const StateShard stored = StoredPrefix(shard.Part(first, shard.size()), order);
    RETURN_IF_ERROR(
        checkpoint.ReadShard(saved.path, stored, out.subspan(first * size, stored.size() * size)));
    first += stored.size();
  }
  return absl::OkStatus();
}

// Writes `bytes`, the elements of the part from `first` on, to the engine.
absl::Status WriteElements(Engine& engine, const StateInfo& state, const StatePart& part,
                           int64_t first, absl::Span<const char> bytes) {
  const int64_t size = SizeOf(state.type.dtype), count = static_cast<int64_t>(bytes.size()) / size;
  SharedRuns runs(part.shard.Part(first, first + count), part.buffer);
  while (const std::optional<SharedRun> run = runs.Next()) {
    RETURN_IF_ERROR(engine.WriteState(state, run->second * size,
                                      bytes.subspan(run->first * size, run->count * size)));
  }
  return absl::OkStatus();
}

// Copies a rank's part of a state from the checkpoint to the engine, in chunks.
absl::Status LoadPart(const Checkpoint& checkpoint, const StateEntry& saved,
                      absl::Span<const int> order, const StateInfo& state, Engine& engine) {
  const StatePart part = PartOf(engine, state);
  const bool converts = saved.type.dtype != state.type.dtype;
  std::vector<char> read, converted;
  for (int64_t first = 0; first < part.shard.size(); first += kChunkElements) {
    const StateShard chunk =
        part.shard.Part(first, std::min(first + kChunkElements, part.shard.size()));
    read.resize(chunk.size() * SizeOf(saved.type.dtype));
    RETURN_IF_ERROR(ReadInOrder(checkpoint, saved, chunk, order, absl::MakeSpan(read)));
    if (converts) ConvertAll(saved.type.dtype, read, state.type.dtype, converted);
    RETURN_IF_ERROR(WriteElements(engine, state, part, first, converts ? converted : read));
  }
  return absl::OkStatus();
}

// Returns lines for the user if states are converted or transposed.
std::vector<std::string> NotesOnChanges(const Checkpoint& checkpoint, const Model& model,
                                        const StoredOrders& orders,
                                        absl::Span<const StateInfo> states) {
  std::vector<std::string> notes;
  std::string first_transposed;
  absl::flat_hash_set<absl::string_view> transposed;
  for (const StateInfo& state : states) {
    const absl::StatusOr<const StateEntry*> saved = checkpoint.Find(state.origin);
    if (!saved.ok()) continue;
    const DType dtype = (*saved)->type.dtype;
    if (dtype != state.type.dtype && notes.empty()) {
      notes.push_back(absl::StrCat("the checkpoint holds ", DTypeName(dtype),
                                   ", this device keeps ", DTypeName(state.type.dtype),
                                   ": state is converted"));
    }
    if (orders.Find(state.origin).empty()) continue;
    if (transposed.empty()) first_transposed = state.origin;
    transposed.insert(state.origin);
  }
  if (transposed.empty()) return notes;
  notes.push_back(absl::StrCat("the checkpoint holds version ", checkpoint.state_version(),
                               " of the model's states, and this is version ",
                               model.state_version(), ": '", first_transposed, "' and ",
                               Counted(static_cast<int64_t>(transposed.size()) - 1, "other state"),
                               " are transposed"));
  return notes;
}

bool Convertible(DType a, DType b) { return a == b || (IsFloating(a) && IsFloating(b)); }

// Compares a state of the run with that of the checkpoint, which stores it in `order`.
absl::Status CheckStateFits(const Checkpoint& checkpoint, const StateInfo& state,
                            absl::Span<const int> order) {
  const auto differs = [&](auto&&... text) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint ", checkpoint.folder(), " has ", text...));
  };
  const TensorType type = GlobalType(state);
  const absl::StatusOr<const StateEntry*> found = checkpoint.Find(state.origin);
  if (!found.ok()) {
    if (IsLossScaleState(state.origin)) return absl::OkStatus();
    return differs("no state '", state.origin, "', which this run has as ", TypeToString(type));
  }
  const StateEntry& saved = **found;
  if (saved.role != RoleName(state)) {
    return differs("the state '", state.origin, "' in the role '", saved.role,
                   "', this run in the role '", RoleName(state), "'");
  }
  const TensorType stored = {type.dtype, StoredShape(type.shape, order)};
  if (saved.type.shape == stored.shape && Convertible(saved.type.dtype, type.dtype)) {
    return absl::OkStatus();
  }
  return differs("the state '", state.origin, "' as ", TypeToString(saved.type), ", this run as ",
                 TypeToString(type),
                 order.empty()
                     ? ""
                     : absl::StrCat(", which that version of the model's states holds as ",
                                    TypeToString(stored)));
}

}  // namespace

absl::Status CheckFits(const Checkpoint& checkpoint, const Model& model,
                       absl::Span<const StateInfo> states, Extra extra) {
  ASSIGN_OR_RETURN(const StoredOrders orders, StoredOrders::Create(checkpoint, model));
  absl::flat_hash_set<absl::string_view> known;
  for (const StateInfo& state : states) {
    known.insert(state.origin);
    RETURN_IF_ERROR(CheckStateFits(checkpoint, state, orders.Find(state.origin)));
  }
  for (const StateEntry& saved : checkpoint.state()) {
    if (known.contains(saved.path) || IsLossScaleState(saved.path)) continue;
    if (extra == Extra::kLeaveOptimizer && saved.role == kOptimizerRole) continue;
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint ", checkpoint.folder(),
                                                      " has the state '", saved.path,
                                                      "', which this run does not have"));
  }
  return absl::OkStatus();
}

bool LacksLossScale(const Checkpoint& checkpoint, absl::Span<const StateInfo> states) {
  return absl::c_any_of(states, [&](const StateInfo& state) {
    return IsLossScaleState(state.origin) && !checkpoint.Find(state.origin).ok();
  });
}

absl::StatusOr<std::vector<std::string>> LoadState(const Checkpoint& checkpoint, const Model& model,
                                                   Engine& engine, Extra extra) {
  RETURN_IF_ERROR(CheckFits(checkpoint, model, engine.states(), extra));
  ASSIGN_OR_RETURN(const StoredOrders orders, StoredOrders::Create(checkpoint, model));
  for (const StateInfo& state : engine.states()) {
    const absl::StatusOr<const StateEntry*> saved = checkpoint.Find(state.origin);
    if (!saved.ok()) continue;  // CheckFits allows it for the loss scale
    RETURN_IF_ERROR(LoadPart(checkpoint, **saved, orders.Find(state.origin), state, engine));
  }
  return NotesOnChanges(checkpoint, model, orders, engine.states());
}

}  // namespace tessera
