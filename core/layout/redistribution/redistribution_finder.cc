#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/layout/redistribution/layout_graphs.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/redistribution/stated_path.h"
#include "core/status/status_macros.h"

namespace tessera {

RedistributionFinder::RedistributionFinder(Mesh mesh, const CollectivePrices* prices)
    : mesh_(std::move(mesh)),
      prices_(prices),
      graphs_(std::make_unique<LayoutGraphs>(mesh_, PathPrices{*prices, *prices})) {}

RedistributionFinder::~RedistributionFinder() = default;

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
    path = graphs_->Find(from, to, type);
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

}  // namespace tessera
