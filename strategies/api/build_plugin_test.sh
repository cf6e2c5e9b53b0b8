#!/bin/bash
# Builds a plugin that uses all of the search, without Bazel: it exports one symbol, and finds all
# others.
set -euo pipefail
cat > "$TEST_TMPDIR/searching.cc" << 'SOURCE'
#include "strategies/api/kit.h"
#include "strategies/api/search/best_batch.h"
#include "strategies/api/search/plan_search.h"
#include "strategies/api/search/search.h"

namespace {

using namespace tessera::strategy;

class Searching : public Strategy {
 public:
  absl::StatusOr<tessera::Plan> MakePlan(const Request& request, Host& host) override {
    search::Problem problem = {.units = {{{.forward_ps = 1}}}, .limit_bytes = 1};
    if (!search::Solve(problem).found()) return absl::ResourceExhaustedError("nothing fits");
    const auto decide = [&](int64_t batch,
                            TesseraContext* context) -> absl::StatusOr<search::Decided> {
      search::PlanSearch plans(request.memory_limit_bytes(), host, context);
      ASSIGN_OR_RETURN(const search::Candidate* const found, plans.Find([&]() -> absl::Status {
        return plans.Lower(PlanBuilder().Build()).status();
      }));
      return search::Decided{found->plan, found->cost, plans.Explain(*found), batch};
    };
    ASSIGN_OR_RETURN(const search::Decided decided,
                     search::DecideBatch(request, host, 0.01, decide));
    return decided.plan;
  }
};

}  // namespace

TESSERA_STRATEGY(Searching, {.name = "searching", .version = "1.0"});
SOURCE
plugin=$TEST_TMPDIR/searching.so
strategies/api/build_plugin "$plugin" "$TEST_TMPDIR/searching.cc"
test "$(nm -D --defined-only "$plugin" | awk '{print $3}')" = tessera_strategy
# Symbols that no library defines are named on stderr.
if ldd -r "$plugin" 2>&1 | grep "undefined symbol"; then exit 1; fi
