#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/layout/redistribution/gather_and_split.h"
#include "core/layout/redistribution/layout_graph.h"
#include "core/layout/redistribution/moving_axes.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/redistribution/stated_path.h"
#include "core/status/status_macros.h"

namespace tessera {

RedistributionFinder::RedistributionFinder(Mesh mesh, const CollectivePrices* prices)
    : mesh_(std::move(mesh)), prices_(prices) {}

RedistributionFinder::~RedistributionFinder() = default;

LayoutGraph& RedistributionFinder::GraphFor(const MovingAxes& moving, const MeshLayout& from,
                                            const MeshLayout& to, const TensorType& type) {
  GraphKey key(std::vector<int>(moving.axes().begin(), moving.axes().end()),
               moving.LocalShape(type.shape, mesh_), type.dtype, {});
  std::vector<std::pair<int, int64_t>>& units = std::get<3>(key);
  for (const MeshLayout* end : {&from, &to}) {
    for (const int axis : moving.axes()) {
      const AxisLayout& along = end->axis(axis);
      if (along.split() && along.unit != 1) units.emplace_back(along.dim, along.unit);
    }
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  std::unique_ptr<LayoutGraph>& graph = graphs_[key];
  if (graph == nullptr) {
    std::vector<AxisLayout> splits;
    for (int dim = 0; dim < static_cast<int>(type.shape.size()); ++dim) {
      splits.push_back(AxisLayout::Split(dim));
    }
    for (const auto& [dim, unit] : units) splits.push_back(AxisLayout::Split(dim, unit));
    graph = std::make_unique<LayoutGraph>(moving.Submesh(mesh_),
                                          TensorType{type.dtype, std::get<1>(key)},
                                          std::move(splits), moving.axes(), mesh_, *prices_);
  }
  return *graph;
}

std::optional<Redistribution> RedistributionFinder::Search(const MeshLayout& from,
                                                           const MeshLayout& to,
                                                           const TensorType& type) {
  const MovingAxes moving(from, to, mesh_);
  const MeshLayout source = moving.Select(from), target = moving.Select(to);
  std::optional<Redistribution> path;
  if (moving.axes().size() <= MovingAxes::kMost) {
    path = GraphFor(moving, from, to, type).Find(source, target);
  } else if (HoldSameElements(from, to, type.shape, mesh_)) {
    path.emplace();
  } else {
    path = GatherAndSplit(source, target, moving.Submesh(mesh_));
  }
  if (!path.has_value()) return path;
  for (RedistributionStep& step : path->steps) step = moving.Restore(step);
  if (moving.axes().size() > MovingAxes::kMost) {
    path->seconds = SecondsOf(path->steps, type, mesh_, *prices_);
  }
  return path;
}

absl::Status RedistributionFinder::State(const MeshLayout& from, const MeshLayout& to,
                                         const TensorType& type,
                                         std::vector<RedistributionStep> steps) {
  RETURN_IF_ERROR(CheckPath(steps, from, to, type, mesh_));
  Key key(from, to, type.shape, type.dtype);
  MutexLock lock(&mutex_);
  if (known_.contains(key) || stated_.contains(key)) {
    return absl::InvalidArgumentError("it is stated twice, or was found before");
  }
  stated_[std::move(key)] = std::move(steps);
  return absl::OkStatus();
}

absl::StatusOr<RedistributionFinder::Known*> RedistributionFinder::FindOrSearch(
    const MeshLayout& from, const MeshLayout& to, const TensorType& type) {
  RETURN_IF_ERROR(CheckLayout(from, type.shape, mesh_));
  RETURN_IF_ERROR(CheckLayout(to, type.shape, mesh_));
  Key key(from, to, type.shape, type.dtype);
  if (const auto known = known_.find(key); known != known_.end()) return &known->second;
  std::optional<Redistribution> path;
  if (const auto stated = stated_.find(key); stated != stated_.end()) {
    path = {stated->second, SecondsOf(stated->second, type, mesh_, *prices_)};
  } else {
    path = Search(from, to, type);
  }
  if (!path.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a value cannot be brought from layout '", from.ToString(mesh_), "' to '",
        to.ToString(mesh_), "'; only sums can be made partial, and only of values that are no ",
        "partial maxima or log-sum-exps"));
  }
  Known found = {std::make_unique<Redistribution>(*std::move(path))};
  return &known_.try_emplace(std::move(key), std::move(found)).first->second;
}

absl::StatusOr<const Redistribution*> RedistributionFinder::Find(const MeshLayout& from,
                                                                 const MeshLayout& to,
                                                                 const TensorType& type) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Known* known, FindOrSearch(from, to, type));
  return known->path.get();
}

absl::StatusOr<const Redistribution*> RedistributionFinder::Use(const MeshLayout& from,
                                                                const MeshLayout& to,
                                                                const TensorType& type) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Known * known, FindOrSearch(from, to, type));
  known->used = true;
  return known->path.get();
}

std::vector<UsedRedistribution> RedistributionFinder::used() const {
  std::vector<UsedRedistribution> used;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, known] : known_) {
      if (!known.used || known.path->steps.empty()) continue;
      const auto& [from, to, shape, dtype] = key;
      used.push_back({from, to, {dtype, shape}, known.path.get()});
    }
  }
  const auto key = [this](const UsedRedistribution& one) {
    return std::make_tuple(one.type.dtype, one.type.shape, one.from.ToString(mesh_),
                           one.to.ToString(mesh_));
  };
  std::sort(used.begin(), used.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return used;
}

absl::StatusOr<std::vector<double>> RedistributionFinder::FindPrices(
    const MeshLayout& from, absl::Span<const MeshLayout> to, const TensorType& type) {
  RETURN_IF_ERROR(CheckLayout(from, type.shape, mesh_));
  for (const MeshLayout& target : to) RETURN_IF_ERROR(CheckLayout(target, type.shape, mesh_));
  std::vector<double> prices(to.size());
  // The targets in each graph, and their positions in `to`.
  struct Targets {
    std::optional<MovingAxes> moving;
    std::vector<MeshLayout> to;
    std::vector<size_t> positions;
  };
  std::map<LayoutGraph*, Targets> by_graph;
  Targets* plain = nullptr;  // those in units of 1, if the same axes move for all targets
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < to.size(); ++i) {
    const bool is_plain = std::all_of(to[i].axes().begin(), to[i].axes().end(),
                                      [](const AxisLayout& along) { return along.unit == 1; });
    Targets* targets = is_plain ? plain : nullptr;
    if (targets == nullptr) {
      const MovingAxes moving(from, to[i], mesh_);
      if (moving.axes().size() > MovingAxes::kMost) {
        const std::optional<Redistribution> path = Search(from, to[i], type);
        prices[i] = path.has_value() ? path->seconds : std::numeric_limits<double>::infinity();
        continue;
      }
      targets = &by_graph[&GraphFor(moving, from, to[i], type)];
      targets->moving = moving;
      if (is_plain && moving.all_move()) plain = targets;
    }
    targets->to.push_back(targets->moving->Select(to[i]));
    targets->positions.push_back(i);
  }
  for (auto& [graph, targets] : by_graph) {
    const std::vector<double> found = graph->FindPrices(targets.moving->Select(from), targets.to);
    for (size_t i = 0; i < found.size(); ++i) prices[targets.positions[i]] = found[i];
  }
  return prices;
}

}  // namespace tessera
