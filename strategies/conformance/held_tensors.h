// The elements of global tensors that ranks hold.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_HELD_TENSORS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_HELD_TENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/layout/flat_group.h"
#include "core/layout/mesh_layout.h"
#include "core/program/program.h"
#include "core/sync/mutex.h"
#include "core/tensor/shape.h"

namespace tessera {

// Global tensors, by path.
using Tensors = std::map<std::string, std::vector<double>>;

// The elements of a value that a rank holds: a box of the global tensor, in a buffer of the padded
// shape; or a range of the box's elements, without padding, if it is a member of a flat group.
struct Held {
  Box box;
  Shape global, padded;
  FlatGroup::Range range;
  bool flat = false;

  int64_t buffer_elements() const { return flat ? range.size() : NumElements(padded); }

  // Calls visit(buffer_index, global_index) for each element that the rank holds.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    const Strides in_global = RowMajorStrides(global), in_padded = RowMajorStrides(padded);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t rest = i, global_index = 0, local_index = 0;
      for (size_t d = global.size(); d-- > 0;) {
        const int64_t index = rest % box.extent[d];
        global_index += (box.start[d] + index) * in_global[d];
        local_index += index * in_padded[d];
        rest /= box.extent[d];
      }
      visit(flat ? i - range.begin : local_index, global_index);
    }
  }
};

Held HeldOf(const Program& program, ProgramValueId value, int rank);

// Interface that receives the elements of global tensors that a rank holds.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  // `local` has the elements of the rank's buffer. Internal if they are not the expected ones.
  virtual absl::Status Add(const std::string& path, const Held& held,
                           absl::Span<const double> local) = 0;
};

// Global tensors that are assembled from ranks that are threads. Thread-safe.
class GatheredTensors : public TensorSink {
 public:
  // Internal if ranks differ in an element that both hold.
  absl::Status Add(const std::string& path, const Held& held,
                   absl::Span<const double> local) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the tensors. Internal if no rank holds some element.
  absl::StatusOr<Tensors> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  Tensors tensors_ ABSL_GUARDED_BY(mutex_);
  // Which elements of them some rank holds.
  std::map<std::string, std::vector<bool>> added_ ABSL_GUARDED_BY(mutex_);
};

// Compares the elements that a rank holds with given global tensors. Thread-safe.
class ExpectedTensors : public TensorSink {
 public:
  // `tensors` must outlive the object.
  explicit ExpectedTensors(const Tensors& tensors) : tensors_(tensors) {}

  // Internal unless all elements have the same bits.
  absl::Status Add(const std::string& path, const Held& held,
                   absl::Span<const double> local) override;

 private:
  const Tensors& tensors_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_HELD_TENSORS_H_
