// Names of the passes over a Program that a Plan may list. The passes themselves are in
// core/program/passes/pass_list.cc, which does not compile if its names differ from these.
#ifndef TESSERA_CORE_PLAN_CHOICES_PASS_NAMES_H_
#define TESSERA_CORE_PLAN_CHOICES_PASS_NAMES_H_

#include <iterator>

#include "absl/strings/string_view.h"

namespace tessera {

inline constexpr absl::string_view kPassNames[] = {"fuse", "order"};
// A line of help for each of them.
inline constexpr absl::string_view kPassHelp[] = {
    "joins matrix products with the bias and activation that follow",
    "moves reductions of gradients, and what frees memory, as early as they can run"};
static_assert(std::size(kPassHelp) == std::size(kPassNames));

// Listed alone, it means that no pass runs. (An empty list means the default passes.)
inline constexpr absl::string_view kNoPass = "none";

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHOICES_PASS_NAMES_H_
