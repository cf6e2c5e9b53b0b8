#include "core/graph/fingerprints.h"

namespace tessera {

const std::string& Fingerprints::Of(size_t graph) const {
  MutexLock lock(&mutex_);
  std::optional<std::string>& made = made_[graph];
  if (!made.has_value()) made = graphs_[graph].Fingerprint();
  return *made;
}

}  // namespace tessera
