#include "core/layout/mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

constexpr size_t kMaxNameLength = 64;

bool IsAxisName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

absl::Status CheckNames(absl::Span<const Mesh::Axis> axes) {
  if (axes.size() > Mesh::kMaxAxes) {
    return absl::InvalidArgumentError(absl::StrCat("a mesh of ", axes.size(), " axes; at most ",
                                                   Mesh::kMaxAxes, " are possible"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!IsAxisName(axes[i].name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "axis ", i, " of the mesh is named ", Quote(axes[i].name), "; a name is up to ",
          kMaxNameLength, " lower case letters, digits and underscores, and begins with a letter"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axes[i].name) {
        return absl::InvalidArgumentError(
            absl::StrCat("the mesh has two axes named '", axes[i].name, "'"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  RETURN_IF_ERROR(CheckNames(axes));
  Mesh mesh;
  for (const Axis& axis : axes) {
    if (axis.size < 1) {
      return absl::InvalidArgumentError(absl::StrCat("axis '", axis.name, "' of the mesh has size ",
                                                     axis.size, "; it must be at least 1"));
    }
    if (axis.size > kMaxRanks / mesh.size_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the mesh has more than ", kMaxRanks, " ranks"));
    }
    mesh.size_ *= axis.size;
  }
  mesh.axes_ = std::move(axes);
  return mesh;
}

absl::StatusOr<Mesh> Mesh::ForRanks(std::vector<Axis> axes, int ranks) {
  Axis* open = nullptr;
  int64_t others = 1;
  for (Axis& axis : axes) {
    if (axis.size == 0 && open != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("axes '", open->name, "' and '", axis.name,
                       "' of the mesh have no size; only one can take the ranks that remain"));
    }
    if (axis.size == 0) {
      open = &axis;
    } else {
      others = std::min<int64_t>(others * std::max(axis.size, 1), kMaxRanks + 1);
    }
  }
  if (open != nullptr && ranks % others == 0) open->size = static_cast<int>(ranks / others);
  if (open != nullptr && open->size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis '", open->name, "' of the mesh cannot take the ranks that remain: the ",
                     "other axes have ", others, " ranks, which do not divide ", ranks));
  }
  ASSIGN_OR_RETURN(Mesh mesh, Create(std::move(axes)));
  if (mesh.size() == ranks) return mesh;
  return absl::InvalidArgumentError(absl::StrCat("the mesh (", mesh.ToString(), ") has ",
                                                 mesh.size(), " ranks, but the job has ", ranks));
}

absl::StatusOr<int> Mesh::FindAxis(absl::string_view name) const {
  std::vector<std::string> names;
  for (int i = 0; i < num_axes(); ++i) {
    if (axes_[i].name == name) return i;
    names.push_back(axes_[i].name);
  }
  return absl::InvalidArgumentError(absl::StrCat("the mesh (", ToString(), ") has no axis ",
                                                 Quote(name), DidYouMean(name, names)));
}

MeshCoordinates Mesh::CoordinatesOf(int rank) const {
  MeshCoordinates coordinates(axes_.size());
  for (int i = num_axes() - 1; i >= 0; --i) {
    coordinates[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return coordinates;
}

int Mesh::RankOf(absl::Span<const int> coordinates) const {
  int rank = 0;
  for (int i = 0; i < num_axes(); ++i) rank = rank * axes_[i].size + coordinates[i];
  return rank;
}

std::vector<std::vector<int>> Mesh::GroupsAlong(absl::Span<const int> axes) const {
  std::vector<std::vector<int>> groups;
  std::vector<int> group_of(size_, -1);  // by first rank
  for (int rank = 0; rank < size_; ++rank) {
    MeshCoordinates coordinates = CoordinatesOf(rank);
    for (int axis : axes) coordinates[axis] = 0;
    const int first = RankOf(coordinates);
    if (group_of[first] < 0) {
      group_of[first] = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    groups[group_of[first]].push_back(rank);
  }
  return groups;
}

std::string Mesh::ToString() const {
  return absl::StrJoin(axes_, ", ", [](std::string* out, const Axis& axis) {
    absl::StrAppend(out, axis.name, ": ", axis.size);
  });
}

}  // namespace tessera
