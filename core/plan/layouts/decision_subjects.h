// The states and inputs of the Graphs of a run, which the choices of a Plan name.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_DECISION_SUBJECTS_H_
#define TESSERA_CORE_PLAN_LAYOUTS_DECISION_SUBJECTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/plan/choices/path_index.h"
#include "core/tensor/shape.h"

namespace tessera {

// A state or an input of the Graphs.
struct DecisionSubject {
  std::string path;
  std::string origin;  // the path of the recorded state or input
  TensorType type;
  Role role = Role::kInput;
  bool trainable = true;
};

// They depend on the Graphs only. Thread safety: immutable after construction.
class DecisionSubjects {
 public:
  explicit DecisionSubjects(absl::Span<const Graph> graphs);

  // Each path once, in the order of the Graphs.
  const std::vector<DecisionSubject>& all() const { return all_; }
  // The numbers are positions in all().
  const PathIndex& index() const { return index_; }
  // By path of optimizer state: the parameter that it belongs to, and whose type it has.
  const absl::flat_hash_map<std::string, std::string>& parameter_of() const {
    return parameter_of_;
  }

 private:
  void Add(DecisionSubject subject);

  std::vector<DecisionSubject> all_;
  PathIndex index_;
  absl::flat_hash_map<std::string, std::string> parameter_of_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_DECISION_SUBJECTS_H_
