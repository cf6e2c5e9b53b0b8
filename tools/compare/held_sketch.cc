#include "tools/compare/held_sketch.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/program/rank_rules.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/tensor_view.h"
#include "core/train/checkpoint/state_shard.h"
#include "core/train/state/state_part.h"

namespace tessera {
namespace {

constexpr int64_t kChunkElements = 1 << 16;

// Reads elements of a value from the device, and converts them.
class ValueReader {
 public:
  ValueReader(Backend* backend, const TensorView& view) : backend_(*backend), view_(view) {}

  // Returns `count` elements that are contiguous in memory, from `offset` on. The result is valid
  // until the next call.
  absl::StatusOr<absl::Span<const double>> Read(int64_t offset, int64_t count) {
    const int64_t size = SizeOf(view_.dtype);
    bytes_.resize(count * size);
    values_.resize(count);
    RETURN_IF_ERROR(backend_.CopyToHost(bytes_.data(), view_.As<const char>() + offset * size,
                                        static_cast<int64_t>(bytes_.size())));
    ToDoubles(view_.dtype, bytes_.data(), absl::MakeSpan(values_));
    return absl::MakeConstSpan(values_);
  }

 private:
  Backend& backend_;
  const TensorView view_;
  std::vector<char> bytes_;
  std::vector<double> values_;
};

// Returns the elements of the recorded tensor that a rank holds of a value.
StatePart PartOf(const Program& program, const ProgramValue& value, int rank) {
  const FlatRule* const flat = value.flat == kNone ? nullptr : &program.flats[value.flat];
  if (value.part == kNone && flat == nullptr) return FullPart(value.type.shape);
  const PartRule part =
      value.part != kNone
          ? program.parts[value.part]
          : PartRule::All(flat->group->members()[flat->member].local, program.mesh.num_axes());
  return PartOnRank(part, flat, program.mesh, program.mesh.CoordinatesOf(rank));
}

// The rows of a view that are contiguous in memory: all of it, or one row along its last dimension.
int64_t ContiguousElements(const TensorView& view) {
  if (view.row_major() || view.shape.empty()) return view.elements();
  return view.strides.back() == 1 ? view.shape.back() : 1;
}

// Returns the position in memory of element `i` of a view, in row-major order.
int64_t PositionOf(const TensorView& view, int64_t i) {
  int64_t position = 0;
  for (size_t d = view.shape.size(); d-- > 0;) {
    position += i % view.shape[d] * view.strides[d];
    i /= view.shape[d];
  }
  return position;
}

}  // namespace

absl::StatusOr<RankSketches::Held> SketchOfValue(Engine& engine, absl::string_view program,
                                                 ProgramValueId value, absl::string_view path) {
  const Executor& executor = engine.executor(program);
  const ProgramValue& v = executor.program().value(value);
  const StatePart part = PartOf(executor.program(), v, engine.options().rank.rank);
  const TensorView view = executor.ViewOf(value);
  const StateShard all = FullShard(part.global);
  ValueReader reader(&engine.backend(), view);
  TensorSketch sketch;
  const int64_t contiguous = ContiguousElements(view);
  for (int64_t i = 0; i < part.shard.size();) {
    const int64_t count =
        std::min({contiguous - i % contiguous, part.shard.size() - i, kChunkElements});
    ASSIGN_OR_RETURN(const absl::Span<const double> elements,
                     reader.Read(PositionOf(view, i), count));
    SharedRuns runs(part.shard.Part(i, i + count), all);
    while (const std::optional<SharedRun> run = runs.Next()) {
      sketch.Add(run->second, elements.subspan(run->first, run->count));
    }
    i += count;
  }
  RankSketches::Held held;
  held.set_path(path.data(), path.size());
  held.set_shard(ShardToString(part.shard));
  held.set_squares(sketch.squares);
  held.mutable_projections()->Add(sketch.projections.begin(), sketch.projections.end());
  return held;
}

std::vector<SketchedTensor> MergeShards(absl::Span<const std::vector<RankSketches::Held>> ranks) {
  std::vector<SketchedTensor> tensors;
  std::map<std::string, size_t> numbers;                      // by path
  std::map<std::string, std::pair<int, TensorSketch>> first;  // by path and shard
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const RankSketches::Held& held : ranks[rank]) {
      TensorSketch sketch;
      sketch.squares = held.squares();
      const int products = std::min(held.projections_size(), TensorSketch::kProjections);
      std::copy_n(held.projections().begin(), products, sketch.projections.begin());
      const auto [number, is_new] = numbers.emplace(held.path(), tensors.size());
      if (is_new) tensors.push_back({held.path(), {}});
      SketchedTensor& tensor = tensors[number->second];
      const auto [same, is_first] = first.emplace(absl::StrCat(held.path(), " ", held.shard()),
                                                  std::make_pair(static_cast<int>(rank), sketch));
      if (is_first) {
        tensor.sketch += sketch;
        continue;
      }
      const double distance = Distance(same->second.second, sketch);
      if (distance <= tensor.rank_distance) continue;
      tensor.rank = static_cast<int>(rank);
      tensor.first_rank = same->second.first;
      tensor.rank_distance = distance;
    }
  }
  return tensors;
}

}  // namespace tessera
