#include "core/ops/random_draw.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::Status CheckDrawnRegion(const InputCheck& check, const Attributes& attributes,
                              const Shape& shape) {
  if (!attributes.Has("start") && !attributes.Has("global_shape")) return absl::OkStatus();
  RETURN_IF_ERROR(check.Has<std::vector<int64_t>>("start"));
  ASSIGN_OR_RETURN(const Shape global, check.ShapeOf("global_shape"));
  const std::vector<int64_t>& start = attributes.GetInts("start");
  bool is_inside = start.size() == shape.size() && global.size() == shape.size();
  for (size_t d = 0; is_inside && d < shape.size(); ++d) {
    // An empty part may be said to start anywhere.
    is_inside = start[d] >= 0 && (shape[d] == 0 || start[d] <= global[d] - shape[d]);
  }
  if (is_inside) return absl::OkStatus();
  return check.Misfit("start",
                      absl::StrCat("where a part ", ShapeToString(shape),
                                   " lies within the global tensor ", ShapeToString(global)));
}

absl::Status CheckDraw(const InputCheck& check, const Attributes& attributes, const Shape& shape) {
  if (attributes.Has("random_path")) RETURN_IF_ERROR(check.Has<std::string>("random_path"));
  return CheckDrawnRegion(check, attributes, shape);
}

Attributes WithDrawnRegion(const Attributes& attributes, const Shape& shape, const Region& region) {
  if (shape == region.global) return attributes;
  std::vector<int64_t> start(region.start.begin(), region.start.end());
  std::vector<int64_t> global(region.global.begin(), region.global.end());
  if (attributes.Has("start")) {  // a part of a part
    global = attributes.GetInts("global_shape");
    for (size_t d = 0; d < start.size(); ++d) start[d] += attributes.GetInts("start")[d];
  }
  Attributes local = attributes;
  local.Set("start", std::move(start));
  local.Set("global_shape", std::move(global));
  return local;
}

Tensor FindOrAddDrawKeyInput(Graph& graph, absl::string_view name) {
  const ValueId known = graph.FindValue(name);
  return known == kNone ? graph.Input(name, {DType::kI64, {}}) : graph.tensor(known);
}

Tensor RecordDraw(const Operator& kind, Tensor x, Attributes attributes) {
  if (!x.valid()) return {};
  Graph& graph = *x.graph();
  attributes.Set("random_path", std::string());
  const Tensor y = RecordSingleOutput(
      kind, {x, FindOrAddDrawKeyInput(graph, "seed"), FindOrAddDrawKeyInput(graph, "step")},
      std::move(attributes));
  if (!y.valid()) return y;
  const OpId op = graph.value(y.id()).producer;
  graph.SetAttribute(op, "random_path", graph.op(op).path);
  return y;
}

}  // namespace tessera
