#include "core/plan/rewrite/micro_batches.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/plan/graph/copy_graph.h"
#include "core/plan/graph/time_split_writer.h"
#include "core/plan/rewrite/micro_batch_layouts.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Describes the micro-batches as the parts of an axis along which all values are split.
TimeSplit SplitOf(const MicroBatchLayouts& layouts, int64_t micro_batches) {
  TimeSplit split;
  TimeAxis& axis = split.axes.emplace_back();
  for (int64_t k = 0; k < micro_batches; ++k) {
    axis.suffixes.push_back(absl::StrCat("@", k));
    axis.sum_suffixes.push_back(absl::StrCat("@0..", k));
  }
  split.values = layouts.values;
  split.axis.assign(layouts.values.size(), 0);
  split.gathered = layouts.gathered;
  return split;
}

// Writes the Graph in micro-batches. Ids of the Graph that is read are called `old`.
class MicroBatchWriter {
 public:
  MicroBatchWriter(const Graph& graph, const MicroBatchLayouts& layouts, const TimeSplit& split,
                   absl::Span<const std::string> separate)
      : graph_(graph),
        layouts_(layouts),
        micro_batches_(split.axes[0].parts()),
        separate_(separate.begin(), separate.end()),
        writer_(graph, split,
                {"micro_batches", /*own_paths=*/false, /*views_per_phase=*/false,
                 [](const Op& old, int64_t part, Op& op) {
                   op.micro_batch = static_cast<int32_t>(part);
                 }}) {}

  absl::StatusOr<Graph> Write() && {
    Graph& out = writer_.out();
    // Those that run once, such as updates, leave room for the ops that accumulate gradients.
    const size_t times = static_cast<size_t>(micro_batches_);
    out.Reserve(graph_.ops().size() * times, graph_.values().size() * times);
    CopyInputs();
    CopyStatesAndBlocks(graph_, out, writer_.full());
    for (const OpId old : graph_.ops().ids()) {
      if (StageOf(old) != MicroBatchStage::kBefore) continue;
      if (layouts_.ops[old].full) {
        writer_.WriteFull(old);
      } else {
        for (int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
          RETURN_IF_ERROR(WriteIn(old, micro_batch));
        }
      }
    }
    for (int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
      for (const OpId old : graph_.ops().ids()) {
        if (StageOf(old) == MicroBatchStage::kEach) RETURN_IF_ERROR(WriteIn(old, micro_batch));
      }
    }
    for (const OpId old : graph_.ops().ids()) {
      if (StageOf(old) == MicroBatchStage::kAfter) writer_.WriteFull(old);
    }
    CopyResults(
        graph_, [this](ValueId old) { return writer_.FindOrConcatFull(old); }, out);
    writer_.LinkGradients();
    RETURN_IF_ERROR(out.status());
    return std::move(out);
  }

 private:
  MicroBatchStage StageOf(OpId old) const { return layouts_.ops[old].stage; }

  absl::Status WriteIn(OpId old, int64_t micro_batch) {
    return writer_.WritePart(old, layouts_.ops[old].inputs, /*axis=*/0, micro_batch);
  }

  void CopyInputs() {
    Graph& out = writer_.out();
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      if (input.batch_dim != kNone && separate_.contains(value.path)) {
        for (int64_t k = 0; k < micro_batches_; ++k) {
          Value part =
              writer_.DescribePart(input.value, layouts_.values[input.value], /*axis=*/0, k);
          part.role = Role::kInput;
          writer_.AddPart(input.value, out.AppendInput(part, input.batch_dim, input.origin));
        }
      } else {
        writer_.full()[input.value] = out.AppendInput(value, input.batch_dim, input.origin);
      }
    }
  }

  const Graph& graph_;
  const MicroBatchLayouts& layouts_;
  const int64_t micro_batches_;
  const absl::flat_hash_set<std::string> separate_;  // paths of inputs
  TimeSplitWriter writer_;
};

}  // namespace

absl::StatusOr<Graph> SplitIntoMicroBatches(const Graph& graph, int64_t micro_batches,
                                            absl::Span<const std::string> separate) {
  if (micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches: ", micro_batches, "; it must be at least 1"));
  }
  if (micro_batches == 1) return graph;
  ASSIGN_OR_RETURN(const MicroBatchLayouts layouts, LayOutMicroBatches(graph, micro_batches));
  const TimeSplit split = SplitOf(layouts, micro_batches);
  return MicroBatchWriter(graph, layouts, split, separate).Write();
}

}  // namespace tessera
