// The figures of planned steps as a table of at most 80 columns.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_PLAN_TABLE_H_
#define TESSERA_TOOLS_PLAN_TABLE_H_

#include <string>

#include "absl/types/span.h"
#include "tools/plan/figures.h"

namespace tessera {

// Returns the title of a table: the step, the cluster, and the memory of a rank.
//
//   gpt: 6.66B parameters, 1024 sequences of 2048 tokens a step, adamw
//   for 8 H100 a host, 8 x 400 Gbit/s; a rank may use 74.5 GiB
std::string PlanTitle(const std::string& step, const std::string& cluster,
                      absl::Span<const Figures> all);

// Returns a block of rows for each strategy, one row for each number of ranks:
//
//   fsdp      ranks      step  tokens/s    MFU    days      peak     spare  exposed
//                 8    19.3 s      109K  71.0%    1285   153 GiB  -78.5 GiB  0.66 s
//
// `spare` is what a rank's memory has left, or lacks. Below a row are its batch, if most steps
// have another one, its micro-batches and recomputation, if there are any, and the least memory
// that was found if it does not fit. `tokens` are those of a training; 0: no days. Returns "" if
// nothing was planned.
std::string FiguresTable(absl::Span<const Figures> all, double tokens);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_TABLE_H_
