#include "core/train/state/state_transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"
#include "core/text/counted.h"
#include "core/train/optimizer.h"
#include "core/train/state/state_part.h"
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

Shape GlobalShape(const StateInfo& state) {
  return state.part.has_value() ? state.part->global : state.type.shape;
}

// Returns the part of a state that the engine's rank holds.
StatePart PartOf(const Engine& engine, const StateInfo& state) {
  const int rank = engine.options().rank.rank;
  if (!state.part.has_value()) {
    StatePart part = FullPart(state.type.shape);
    part.saves = rank == 0;
    return part;
  }
  const Mesh& mesh = engine.run().programs.front().mesh;
  const FlatRule* const flat = state.flat.has_value() ? &*state.flat : nullptr;
  return PartOnRank(*state.part, flat, mesh, mesh.CoordinatesOf(rank));
}

// Writes the elements in `bytes`, which start at element `first` of the part, to the rank's buffer.
absl::Status WriteElements(const StateInfo& state, const StatePart& part, int64_t first,
                           absl::Span<const char> bytes, Engine& engine) {
  const int64_t size = SizeOf(state.type.dtype), count = static_cast<int64_t>(bytes.size()) / size;
  return ForEachBufferRun(part, first, count, [&](int64_t element, int64_t to, int64_t elements) {
    return engine.WriteState(state, to * size,
                             bytes.subspan((element - first) * size, elements * size));
  });
}

absl::Status ReadElements(const StateInfo& state, const StatePart& part, int64_t first,
                          absl::Span<char> bytes, Engine& engine) {
  const int64_t size = SizeOf(state.type.dtype), count = static_cast<int64_t>(bytes.size()) / size;
  return ForEachBufferRun(part, first, count, [&](int64_t element, int64_t from, int64_t elements) {
    return engine.ReadState(state, from * size,
                            bytes.subspan((element - first) * size, elements * size));
  });
}

absl::Status LoadOne(const Checkpoint& checkpoint, const StateEntry& saved, const StateInfo& state,
                     absl::Span<const int> order, Engine& engine) {
  const StatePart part = PartOf(engine, state);
  const int64_t saved_size = SizeOf(saved.type.dtype);
  const bool same = saved.type.dtype == state.type.dtype;
  std::vector<char> read, converted;
  for (int64_t first = 0; first < part.shard.size(); first += kChunkElements) {
    const int64_t count = std::min(kChunkElements, part.shard.size() - first);
    read.resize(count * saved_size);
    RETURN_IF_ERROR(ForEachStoredShard(
        part.shard.Part(first, first + count), order, [&](const StateShard& stored, int64_t begin) {
          return checkpoint.ReadShard(
              state.origin, stored,
              absl::MakeSpan(read).subspan(begin * saved_size, stored.size() * saved_size));
        }));
    if (!same) ConvertAll(saved.type.dtype, read, state.type.dtype, converted);
    RETURN_IF_ERROR(WriteElements(state, part, first, same ? read : converted, engine));
  }
  return absl::OkStatus();
}

absl::string_view RoleOf(const StateInfo& state) {
  return state.role == Role::kParameter ? kParameterRole : kOptimizerRole;
}

// The states of a run as a checkpoint lists them: slices of one state share its entry.
struct SavedStates {
  explicit SavedStates(absl::Span<const StateInfo> states) {
    absl::flat_hash_map<absl::string_view, int> known;
    for (const StateInfo& state : states) {
      const auto [it, added] = known.try_emplace(state.origin, static_cast<int>(entries.size()));
      entry_of.push_back(it->second);
      if (!added) continue;
      entries.push_back(
          {state.origin, absl::StrCat(RoleOf(state)), {state.type.dtype, GlobalShape(state)}});
    }
  }
  std::vector<StateEntry> entries;
  std::vector<int> entry_of;  // for each state of the run, its index in `entries`
};

// Returns the number of parts of a flat group that hold elements of a member.
int64_t PartsHolding(const FlatRule& flat) {
  const FlatGroup::Range range = flat.group->InGathered(flat.member);
  if (range.size() == 0) return 0;
  return (range.end - 1) / flat.group->part() - range.begin / flat.group->part() + 1;
}

// Returns an upper bound of the number of shards in which a state is saved.
int64_t MostShards(const StateInfo& state, const Mesh& mesh) {
  if (!state.part.has_value()) return 1;
  int64_t shards = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (state.part->layout.axis(axis).split()) shards *= mesh.axis(axis).size;
  }
  return state.flat.has_value() ? shards * PartsHolding(*state.flat) : shards;
}

bool Convertible(DType a, DType b) { return a == b || (IsFloating(a) && IsFloating(b)); }

}  // namespace

absl::Status CheckSavable(absl::Span<const StateInfo> states, const Mesh& mesh, std::string plan) {
  CheckpointContents contents;
  contents.plan = std::move(plan);
  contents.state = SavedStates(states).entries;
  absl::Status status = CheckContents(contents);
  if (status.ok()) {
    int64_t shards = 0;
    for (const StateInfo& state : states) shards += MostShards(state, mesh);
    status = CheckNumShards(shards);
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("the run cannot be saved in a checkpoint: ", status.message()));
}

int64_t SavedBytes(absl::Span<const StateInfo> states) {
  int64_t bytes = 0;
  for (const StateEntry& entry : SavedStates(states).entries) bytes += NumBytes(entry.type);
  return bytes;
}

absl::StatusOr<std::unique_ptr<CheckpointSave>> BeginSave(const Engine& engine,
                                                          const SaveRequest& request) {
  CheckpointContents contents;
  contents.step = request.step;
  contents.rows = request.position.rows;
  contents.sequence = request.position.sequence;
  contents.state_version = request.state_version;
  contents.data = request.data;
  contents.run = request.run;
  contents.plan = request.plan;
  contents.config = request.config;
  contents.state = SavedStates(engine.states()).entries;
  SaveOptions options;
  options.keep = request.keep;
  return CheckpointSave::Begin(request.run_folder, std::move(contents), options);
}

ShardReport WriteStates(Engine& engine, int ranks, const std::string& folder) {
  const std::vector<StateInfo>& states = engine.states();
  const SavedStates saved(states);
  std::vector<OwnedShard> shards;
  std::vector<const StateInfo*> shard_of;  // by shard
  std::vector<StatePart> parts;            // by shard
  for (size_t i = 0; i < states.size(); ++i) {
    StatePart part = PartOf(engine, states[i]);
    if (!part.saves) continue;
    shards.push_back({saved.entry_of[i], part.shard});
    shard_of.push_back(&states[i]);
    parts.push_back(std::move(part));
  }
  return WriteShards(folder, engine.options().rank.rank, ranks, saved.entries, shards,
                     [&](int shard, int64_t byte_offset, absl::Span<char> out) {
                       const StateInfo& state = *shard_of[shard];
                       return ReadElements(state, parts[shard],
                                           byte_offset / SizeOf(state.type.dtype), out, engine);
                     });
}

absl::Status CheckFits(const Checkpoint& checkpoint, const Model& model,
                       absl::Span<const StateInfo> states, Extra extra) {
  ASSIGN_OR_RETURN(const StoredOrders orders, StoredOrders::Create(checkpoint, model));
  absl::flat_hash_set<absl::string_view> known;
  for (const StateInfo& state : states) {
    known.insert(state.origin);
    const absl::StatusOr<const StateEntry*> saved = checkpoint.Find(state.origin);
    if (!saved.ok() && IsLossScaleState(state.origin)) continue;
    if (!saved.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint ", checkpoint.folder(), " has no state '", state.origin,
          "', which this run has as ", TypeToString({state.type.dtype, GlobalShape(state)})));
    }
    if ((*saved)->role != RoleOf(state)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint ", checkpoint.folder(), " has the state '", state.origin,
          "' in the role '", (*saved)->role, "', this run in the role '", RoleOf(state), "'"));
    }
    const absl::Span<const int> order = orders.Find(state.origin);
    const TensorType type = {state.type.dtype, GlobalShape(state)};
    if ((*saved)->type.shape != StoredShape(type.shape, order) ||
        !Convertible((*saved)->type.dtype, type.dtype)) {
      const TensorType stored = {type.dtype, StoredShape(type.shape, order)};
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint ", checkpoint.folder(), " has the state '", state.origin, "' as ",
          TypeToString((*saved)->type), ", this run as ", TypeToString(type),
          order.empty() ? ""
                        : absl::StrCat(", which that version of the model's states holds as ",
                                       TypeToString(stored))));
    }
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
  std::vector<std::string> notes;
  std::string first_transposed;
  absl::flat_hash_set<absl::string_view> transposed;
  for (const StateInfo& state : engine.states()) {
    const absl::StatusOr<const StateEntry*> found = checkpoint.Find(state.origin);
    if (!found.ok()) continue;  // CheckFits allows it
    const StateEntry* const saved = *found;
    if (saved->type.dtype != state.type.dtype && notes.empty()) {
      notes.push_back(absl::StrCat("the checkpoint holds ", DTypeName(saved->type.dtype),
                                   ", this device keeps ", DTypeName(state.type.dtype),
                                   ": state is converted"));
    }
    const absl::Span<const int> order = orders.Find(state.origin);
    if (!order.empty() && transposed.empty()) first_transposed = state.origin;
    if (!order.empty()) transposed.insert(state.origin);
    RETURN_IF_ERROR(LoadOne(checkpoint, *saved, state, order, engine));
  }
  if (!transposed.empty()) {
    notes.push_back(absl::StrCat(
        "the checkpoint holds version ", checkpoint.state_version(),
        " of the model's states, and this is version ", model.state_version(), ": '",
        first_transposed, "' and ",
        Counted(static_cast<int64_t>(transposed.size()) - 1, "other state"), " are transposed"));
  }
  return notes;
}

}  // namespace tessera
