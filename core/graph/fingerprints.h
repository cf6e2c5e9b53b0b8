// The fingerprints of the Graphs of a run.
#ifndef TESSERA_CORE_GRAPH_FINGERPRINTS_H_
#define TESSERA_CORE_GRAPH_FINGERPRINTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/sync/mutex.h"

namespace tessera {

// Makes each fingerprint when it is first needed, and only once, because a fingerprint is of the
// Graph's text. Thread safety: any number of threads may call Of.
class Fingerprints {
 public:
  // The Graphs must outlive the object, and must not change.
  explicit Fingerprints(absl::Span<const Graph> graphs) : graphs_(graphs), made_(graphs.size()) {}

  absl::Span<const Graph> graphs() const { return graphs_; }
  // Returns the fingerprint of a Graph by its position. The reference is valid as long as the
  // object.
  const std::string& Of(size_t graph) const;

 private:
  const absl::Span<const Graph> graphs_;
  mutable Mutex mutex_;
  mutable std::vector<std::optional<std::string>> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_FINGERPRINTS_H_
