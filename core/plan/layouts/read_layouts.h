// Collects the layouts in which the ops of a Graph read its values. Ops whose own layout is free
// are computed in the layouts in which their outputs are read.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_READ_LAYOUTS_H_
#define TESSERA_CORE_PLAN_LAYOUTS_READ_LAYOUTS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"
#include "core/layout/signature_fit.h"

namespace tessera {

// The layouts in which each value is read, as far as its readers are known. Not thread-safe.
class ReadLayouts {
 public:
  explicit ReadLayouts(size_t values) : full_(values, false), first_layout_(values) {}

  // Records that something reads all of the value.
  void AddFull(ValueId value) { full_[value] = true; }
  // Records that something reads the value in this layout; B means all of it.
  void Add(ValueId value, const AxisLayout& layout) {
    if (layout.broadcast() ||
        (first_layout_[value].has_value() && *first_layout_[value] != layout)) {
      full_[value] = true;
    }
    if (!first_layout_[value].has_value()) first_layout_[value] = layout;
  }

  // Returns for each output the split or partial layout in which all its readers read it; nothing
  // for an output without readers. Returns nullopt if some output is read in full or in several
  // layouts, or if no output is read: then no layout is better than B.
  std::optional<std::vector<Arriving>> Of(absl::Span<const ValueId> outputs) const {
    std::vector<Arriving> read;
    bool some_output_is_read = false;
    for (ValueId output : outputs) {
      if (full_[output]) return std::nullopt;
      read.push_back(first_layout_[output]);
      some_output_is_read = some_output_is_read || first_layout_[output].has_value();
    }
    if (!some_output_is_read) return std::nullopt;
    return read;
  }

 private:
  Table<ValueId, bool> full_;
  Table<ValueId, std::optional<AxisLayout>> first_layout_;  // the first layout that was added
};

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_READ_LAYOUTS_H_
