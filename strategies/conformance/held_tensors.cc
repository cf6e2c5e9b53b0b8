#include "strategies/conformance/held_tensors.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {

Held HeldOf(const Program& program, ProgramValueId value, int rank) {
  const ProgramValue& v = program.value(value);
  const MeshCoordinates coordinates = program.mesh.CoordinatesOf(rank);
  Held held;
  held.flat = v.flat != kNone;
  held.padded = v.type.shape;
  if (held.flat) {
    held.padded = program.flats[v.flat].group->members()[program.flats[v.flat].member].local;
  }
  held.global = held.padded;
  held.box = {Shape(held.global.size(), 0), held.global};
  if (v.part != kNone) {
    const PartRule& part = program.parts[v.part];
    held.box = part.At(program.mesh, coordinates);
    held.global = part.global;
  }
  held.range = {0, NumElements(held.box.extent)};
  if (held.flat)
    held.range = program.flats[v.flat].HeldAt(program.mesh, coordinates, held.range.end);
  return held;
}

absl::Status GatheredTensors::Add(const std::string& path, const Held& held,
                                  absl::Span<const double> local) {
  MutexLock lock(&mutex_);
  std::vector<double>& tensor = tensors_[path];
  std::vector<bool>& added = added_[path];
  tensor.resize(NumElements(held.global));
  added.resize(tensor.size());
  int64_t differs = -1;
  held.ForEach([&](int64_t i, int64_t global_index) {
    const bool both_nan = std::isnan(tensor[global_index]) && std::isnan(local[i]);
    if (added[global_index] && tensor[global_index] != local[i] && !both_nan)
      differs = global_index;
    tensor[global_index] = local[i];
    added[global_index] = true;
  });
  if (differs < 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ranks differ in element ", differs, " of ", path));
}

absl::StatusOr<Tensors> GatheredTensors::Take() {
  MutexLock lock(&mutex_);
  for (const auto& [path, added] : added_) {
    for (size_t i = 0; i < added.size(); ++i) {
      if (added[i]) continue;
      return absl::InternalError(absl::StrCat("no rank holds element ", i, " of ", path));
    }
  }
  return std::move(tensors_);
}

absl::Status ExpectedTensors::Add(const std::string& path, const Held& held,
                                  absl::Span<const double> local) {
  const auto found = tensors_.find(path);
  if (found == tensors_.end()) return absl::InternalError(absl::StrCat("there is no ", path));
  absl::Status status;
  held.ForEach([&](int64_t i, int64_t global_index) {
    if (!status.ok() || found->second[global_index] == local[i]) return;
    status =
        absl::InternalError(absl::StrCat("element ", global_index, " of ", path, " is ", local[i],
                                         ", and ", found->second[global_index], " was expected"));
  });
  return status;
}

}  // namespace tessera
