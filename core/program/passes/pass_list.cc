#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plan/choices/pass_names.h"
#include "core/program/passes/pass.h"

namespace tessera {
namespace {

constexpr Pass kPasses[] = {
    {"fuse", FusePass},
    {"order", OrderPass},
};

constexpr bool HasTheNamesOfPlans() {
  if (std::size(kPasses) != std::size(kPassNames)) return false;
  for (size_t i = 0; i < std::size(kPasses); ++i) {
    if (kPasses[i].name != kPassNames[i]) return false;
  }
  return true;
}
static_assert(HasTheNamesOfPlans(), "core/plan/choices/pass_names.h names other passes");

}  // namespace

absl::StatusOr<const Pass*> FindPass(absl::string_view name) {
  for (const Pass& pass : kPasses) {
    if (pass.name == name) return &pass;
  }
  return absl::NotFoundError(absl::StrCat(
      "no pass '", name, "'; there are ",
      absl::StrJoin(kPasses, ", ",
                    [](std::string* out, const Pass& pass) { absl::StrAppend(out, pass.name); })));
}

std::vector<std::string> DefaultPasses() { return {"fuse", "order"}; }

}  // namespace tessera
