#include "tests/plans/random/try_plans.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/sync/mutex.h"
#include "tests/plans/random/check_plan.h"
#include "tests/plans/random/draw_plan.h"
#include "tests/plans/random/judge.h"
#include "tests/plans/random/outcome.h"
#include "tests/plans/random/shrink.h"

namespace tessera {
namespace {

// Plans that a worker draws and judges before it looks at the outcomes.
constexpr int64_t kBatch = 64;

// Distributes the Plans over workers.
class Trial {
 public:
  Trial(const std::vector<TrainedModel>& models, const TryOptions& options)
      : models_(models), options_(options), next_(options.first) {}

  void Work() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (;;) {
      int64_t first = 0, count = 0;
      {
        MutexLock lock(&mutex_);
        first = next_;
        count = std::min(kBatch, options_.first + options_.count - first);
        next_ += count;
      }
      if (count <= 0) return;
      std::vector<PlanCase> plans;
      for (int64_t i = first; i < first + count; ++i) {
        plans.push_back(DrawPlan(models_, options_.seed, i));
      }
      const std::vector<Outcome> outcomes = Outcomes(plans);
      for (size_t i = 0; i < plans.size(); ++i) {
        Report(first + static_cast<int64_t>(i), plans[i], outcomes[i]);
      }
    }
  }

  Summary summary() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return summary_;
  }

 private:
  std::vector<Outcome> Outcomes(absl::Span<const PlanCase> plans) const {
    return Judge(
        plans, [this](const PlanCase& plan) { return CheckPlan(models_, plan); }, options_.seconds);
  }

  void Report(int64_t number, const PlanCase& plan, const Outcome& outcome)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      summary_.Add(TraitsOf(*FindModel(models_, plan.model), plan), plan, outcome);
      if (summary_.plans() % 1000 == 0) {
        std::fprintf(stderr, "%d plans, %d failed\n", summary_.plans(), summary_.bad());
      }
      const std::string kind = absl::StrCat(NameOf(outcome.kind), Generalized(outcome.message));
      if (outcome.good() || printed_[kind]++ >= options_.shrunk_per_kind) return;
    }
    const PlanCase shrunk = Shrunk(plan, [&](const PlanCase& simpler) {
      const Outcome other = Outcomes({&simpler, 1})[0];
      const bool alike = outcome.kind == OutcomeKind::kWrong ||
                         Generalized(other.message) == Generalized(outcome.message);
      return other.kind == outcome.kind && alike;
    });
    const Outcome short_outcome = Outcomes({&shrunk, 1})[0];
    const absl::string_view name = NameOf(outcome.kind);
    std::printf("%.*s: %s\n  %s\n  random_plans --seed=%llu --first=%lld --count=1%s\n",
                static_cast<int>(name.size()), name.data(), short_outcome.message.c_str(),
                shrunk.ToString().c_str(), static_cast<unsigned long long>(options_.seed),
                static_cast<long long>(number), models_[0].on_cpu ? " --on_cpu" : "");
    std::fflush(stdout);
  }

  const std::vector<TrainedModel>& models_;
  const TryOptions& options_;
  Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_);
  Summary summary_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> printed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

Summary TryPlans(const std::vector<TrainedModel>& models, const TryOptions& options) {
  Trial trial(models, options);
  std::vector<std::thread> workers;
  for (int i = 0; i < options.workers; ++i) workers.emplace_back([&] { trial.Work(); });
  for (std::thread& worker : workers) worker.join();
  return trial.summary();
}

}  // namespace tessera
