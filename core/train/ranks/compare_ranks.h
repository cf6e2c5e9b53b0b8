// Compares facts that must be the same on all ranks of a run.
#ifndef TESSERA_CORE_TRAIN_RANKS_COMPARE_RANKS_H_
#define TESSERA_CORE_TRAIN_RANKS_COMPARE_RANKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

struct RankFact {
  std::string what;   // "optimizer.lr", "graph 'train'"; unique among the facts
  std::string value;  // texts without a zero byte
};

// Collective. OK if all ranks pass the same facts. FailedPrecondition, an agreed error, names the
// first rank that differs from rank 0, the ranks with the same value, the first fact that differs,
// and `remedy`:
//
//   rank 1 differs from rank 0 in optimizer.lr: 0.002, and rank 0 has 0.001; start all ranks with
//   the same flags        (in one line)
absl::Status CompareRanks(Ranks& ranks, absl::Span<const RankFact> facts, absl::string_view remedy);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RANKS_COMPARE_RANKS_H_
