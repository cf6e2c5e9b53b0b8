#include "core/program/lower/packed_parts.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Returns the copy without dimensions of one element, and with dimensions as one where steps
// through both buffers allow it.
PackedParts::Copy Collapsed(const PackedParts::Copy& copy) {
  PackedParts::Copy result;
  result.in_tensor.offset = copy.in_tensor.offset;
  result.in_buffer.offset = copy.in_buffer.offset;
  for (size_t d = 0; d < copy.shape.size(); ++d) {
    const int64_t size = copy.shape[d];
    const int64_t in_tensor = copy.in_tensor.strides[d], in_buffer = copy.in_buffer.strides[d];
    if (size == 1) continue;
    if (!result.shape.empty() && result.in_tensor.strides.back() == size * in_tensor &&
        result.in_buffer.strides.back() == size * in_buffer) {
      result.shape.back() *= size;
      result.in_tensor.strides.back() = in_tensor;
      result.in_buffer.strides.back() = in_buffer;
    } else {
      result.shape.push_back(size);
      result.in_tensor.strides.push_back(in_tensor);
      result.in_buffer.strides.push_back(in_buffer);
    }
  }
  if (!result.shape.empty()) return result;
  result.shape = {1};
  result.in_tensor.strides = {1};
  result.in_buffer.strides = {1};
  return result;
}

// Returns whether all elements have the same position in both.
bool InOrder(const PackedParts::Copy& copy) {
  if (copy.in_tensor.offset != copy.in_buffer.offset) return false;
  for (size_t d = 0; d < copy.shape.size(); ++d) {
    if (copy.shape[d] > 1 && copy.in_tensor.strides[d] != copy.in_buffer.strides[d]) return false;
  }
  return true;
}

}  // namespace

PackedParts::PackedParts(const Shape& tensor, const MeshLayout& layout, absl::Span<const int> axes,
                         const Mesh& mesh)
    : axes_(axes.size()), tensor_elements_(NumElements(tensor)) {
  int64_t ranks = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    axes_[i] = {mesh.axis(axes[i]).size, ranks, 0};
    ranks *= axes_[i].size;
  }
  for (size_t d = 0; d < tensor.size(); ++d) {
    Dimension dimension;
    dimension.tensor = dimension.part = tensor[d];
    for (const int axis : layout.AxesSplitting(static_cast<int>(d))) {
      const auto found = std::find(axes.begin(), axes.end(), axis);
      if (found == axes.end()) continue;  // outside of the group's splits
      const int i = static_cast<int>(found - axes.begin());
      const auto size = static_cast<int>(axes_[i].size);
      dimension.part = PartExtent(dimension.part, layout.axis(axis).unit, size);
      dimension.splits.push_back(i);
      axes_[i].tensor_step = dimension.part;
    }
    part_elements_ *= dimension.part;
    dimensions_.push_back(std::move(dimension));
  }
  elements_ = ranks * part_elements_;
  in_order_ = true;
  if (elements_ == 0) return;
  for (Dimension& dimension : dimensions_) {
    AddPieces(dimension, 0, dimension.tensor, {});
    dimension.all.extent = dimension.part;
    for (const int i : dimension.splits) {
      dimension.all.first.push_back(0);
      dimension.all.count.push_back(axes_[i].size);
    }
  }
  AddCopies();
  AddPadding();
  in_order_ = std::all_of(copies_.begin(), copies_.end(), InOrder);
}

void PackedParts::AddPieces(Dimension& dimension, size_t level, int64_t extent, Piece piece) const {
  if (level == dimension.splits.size()) {
    piece.extent = extent;
    if (extent > 0) dimension.written.push_back(piece);
    piece.begin = extent;
    piece.extent = dimension.part - extent;
    if (piece.extent > 0) dimension.missing.push_back(std::move(piece));
    return;
  }
  const Axis& axis = axes_[dimension.splits[level]];
  const int64_t full = extent / axis.tensor_step;
  const int64_t rest = extent - full * axis.tensor_step;
  const auto add = [&](int64_t first, int64_t count, int64_t part) {
    if (count == 0) return;
    Piece next = piece;
    next.first.push_back(first);
    next.count.push_back(count);
    AddPieces(dimension, level + 1, part, std::move(next));
  };
  const int64_t held = full + (rest > 0 ? 1 : 0);
  add(0, full, axis.tensor_step);
  add(full, held - full, rest);
  add(held, axis.size - held, 0);
}

PackedParts::Copy PackedParts::Join(absl::Span<const Piece* const> pieces) const {
  Copy copy;
  const auto add = [&copy](int64_t size, int64_t in_tensor, int64_t in_buffer) {
    copy.shape.push_back(size);
    copy.in_tensor.strides.push_back(in_tensor);
    copy.in_buffer.strides.push_back(in_buffer);
  };
  // Elements between neighbours along each dimension.
  std::vector<int64_t> in_tensor(dimensions_.size()), in_part(dimensions_.size());
  int64_t tensor_step = 1, part_step = 1;
  for (size_t d = dimensions_.size(); d-- > 0;) {
    in_tensor[d] = std::exchange(tensor_step, tensor_step * dimensions_[d].tensor);
    in_part[d] = std::exchange(part_step, part_step * dimensions_[d].part);
  }
  std::vector<int64_t> counts(axes_.size()), steps(axes_.size());
  for (size_t d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    for (size_t level = 0; level < dimension.splits.size(); ++level) {
      const int i = dimension.splits[level];
      counts[i] = pieces[d]->count[level];
      steps[i] = axes_[i].tensor_step * in_tensor[d];
      copy.in_tensor.offset += pieces[d]->first[level] * steps[i];
      copy.in_buffer.offset += pieces[d]->first[level] * axes_[i].part_step * part_elements_;
    }
    copy.in_tensor.offset += pieces[d]->begin * in_tensor[d];
    copy.in_buffer.offset += pieces[d]->begin * in_part[d];
  }
  for (size_t i = 0; i < axes_.size(); ++i) {
    add(counts[i], steps[i], axes_[i].part_step * part_elements_);
  }
  int64_t together = 1;  // elements of the dimensions without splits that end at the current one
  for (size_t d = 0; d < dimensions_.size(); ++d) {
    const bool split = !dimensions_[d].splits.empty();
    if (!split) together *= dimensions_[d].tensor;
    const bool ends = split || d + 1 == dimensions_.size();
    if (!ends) continue;
    // The strides of the last dimension of those before a split one.
    const size_t last = split && d > 0 ? d - 1 : d;
    add(std::exchange(together, 1), in_tensor[last], in_part[last]);
    if (split) add(pieces[d]->extent, in_tensor[d], in_part[d]);
    if (split && d + 1 == dimensions_.size()) add(1, 1, 1);
  }
  return copy;
}

void PackedParts::AddCopies() {
  std::vector<const Piece*> pieces(dimensions_.size());
  const auto add = [&](const auto& self, size_t d) -> void {
    if (d == dimensions_.size()) {
      // Along one axis the copy keeps its four dimensions: parts, outer, split and inner elements.
      const Copy copy = Join(pieces);
      copies_.push_back(axes_.size() == 1 ? copy : Collapsed(copy));
      return;
    }
    for (const Piece& piece : dimensions_[d].written) {
      pieces[d] = &piece;
      self(self, d + 1);
    }
  };
  add(add, 0);
}

void PackedParts::AddPadding() {
  // Padding is missing along one dimension, written along those before it, and anything along those
  // after it.
  for (size_t missing = 0; missing < dimensions_.size(); ++missing) {
    std::vector<const Piece*> pieces(dimensions_.size());
    for (size_t d = missing + 1; d < dimensions_.size(); ++d) pieces[d] = &dimensions_[d].all;
    const auto add = [&](const auto& self, size_t d) -> void {
      const Dimension& dimension = dimensions_[d];
      for (const Piece& piece : d < missing ? dimension.written : dimension.missing) {
        pieces[d] = &piece;
        if (d < missing) {
          self(self, d + 1);
          continue;
        }
        Copy range = Join(pieces);
        range.in_tensor = range.in_buffer;  // the tensor does not have these elements
        range = Collapsed(range);
        padding_.push_back({std::move(range.shape), std::move(range.in_buffer)});
      }
    };
    add(add, 0);
  }
}

}  // namespace tessera
