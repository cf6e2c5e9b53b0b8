#include "core/program/hazards/strided_range.h"

#include <algorithm>

namespace tessera {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

StridedRange::StridedRange(int64_t offset, absl::Span<const int64_t> shape,
                           absl::Span<const int64_t> strides)
    : offset_(offset), elements_(1) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) elements_ = 0;
    if (shape[d] > 1 && strides[d] > 0) dims_.push_back({strides[d], shape[d]});
  }
  if (elements_ == 0) dims_.clear();
  std::sort(dims_.begin(), dims_.end(),
            [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  Dims merged;
  for (const Dim& dim : dims_) {
    elements_ *= dim.size;
    if (!merged.empty() && merged.back().stride * merged.back().size == dim.stride) {
      merged.back().size *= dim.size;
    } else {
      merged.push_back(dim);
    }
  }
  dims_ = std::move(merged);
}

StridedRange::StridedRange(int64_t begin, int64_t end) : offset_(begin), elements_(end - begin) {
  if (elements_ > 1) dims_.push_back({1, elements_});
}

int64_t StridedRange::Extent(const Dims& dims, size_t count) {
  int64_t last = 0;
  for (size_t d = 0; d < count; ++d) last += dims[d].stride * (dims[d].size - 1);
  return last + 1;
}

int64_t StridedRange::CommonElements(const StridedRange& a, const StridedRange& b) {
  if (a.elements_ == 0 || b.elements_ == 0) return 0;
  if (a.contiguous() && b.contiguous()) {
    return std::max<int64_t>(0, std::min(a.end(), b.end()) - std::max(a.offset_, b.offset_));
  }
  return CommonElements(a.dims_, a.dims_.size(), b.dims_, b.dims_.size(), b.offset_ - a.offset_);
}

int64_t StridedRange::CommonElements(const Dims& a, size_t a_count, const Dims& b, size_t b_count,
                                     int64_t shift) {
  const int64_t b_extent = Extent(b, b_count);
  if (shift >= Extent(a, a_count) || shift + b_extent <= 0) return 0;
  if (a_count == 0 && b_count == 0) return 1;
  if (b_count > 0 && (a_count == 0 || b[b_count - 1].stride > a[a_count - 1].stride)) {
    return CommonElements(b, b_count, a, a_count, -shift);
  }
  const auto [stride, size] = a[a_count - 1];
  if (b_count > 0 && b[b_count - 1].stride == stride) {
    // Index j of a's outer dimension and index k of b's can overlap only if k - j is one of two
    // numbers.
    const int64_t quotient = FloorDivide(shift, stride);
    int64_t common = 0;
    for (const int64_t distance : {-quotient, -quotient - 1}) {
      const int64_t pairs =
          std::min(size, b[b_count - 1].size - distance) - std::max<int64_t>(0, -distance);
      if (pairs <= 0) continue;
      common += pairs * CommonElements(a, a_count - 1, b, b_count - 1, shift + distance * stride);
    }
    return common;
  }
  if (b_count > 0 && stride % b[b_count - 1].stride == 0) {
    const auto [b_stride, b_size] = b[b_count - 1];
    const int64_t period = stride / b_stride;
    if (b_size > period) {
      // As many periods of a's stride as b has, and the rest.
      Dims periods(b.begin(), b.begin() + static_cast<int64_t>(b_count));
      periods.back().size = period;
      periods.push_back({stride, b_size / period});
      int64_t common = CommonElements(a, a_count, periods, b_count + 1, shift);
      if (b_size % period > 0) {
        periods[b_count - 1].size = b_size % period;
        common += CommonElements(a, a_count, periods, b_count, shift + b_size / period * stride);
      }
      return common;
    }
  }
  const int64_t first = std::max<int64_t>(0, FloorDivide(shift - Extent(a, a_count - 1), stride));
  const int64_t last = std::min(size - 1, FloorDivide(shift + b_extent - 1, stride));
  int64_t common = 0;
  for (int64_t j = first; j <= last; ++j) {
    common += CommonElements(a, a_count - 1, b, b_count, shift - j * stride);
  }
  return common;
}

}  // namespace tessera
