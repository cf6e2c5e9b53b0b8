// Counts the outcomes of Plans.
#ifndef TESSERA_TESTS_PLANS_RANDOM_SUMMARY_H_
#define TESSERA_TESTS_PLANS_RANDOM_SUMMARY_H_

#include <array>
#include <map>
#include <string>

#include "tests/plans/random/draw_plan.h"
#include "tests/plans/random/outcome.h"
#include "tests/plans/random/plan_case.h"

namespace tessera {

class Summary {
 public:
  void Add(const Traits& traits, const PlanCase& tried, const Outcome& outcome);

  int plans() const { return plans_; }
  int bad() const;
  double share_of_groups() const { return Share(groups_); }
  double share_of_two_flat_axes() const { return Share(two_flat_axes_); }
  double share_of_updates_or_stores() const { return Share(updates_or_stores_); }
  double share_refused() const;

  // Returns the table: outcomes, shares, and the kinds of all messages with a Plan for each.
  std::string ToString() const;

 private:
  struct Kind {
    int count = 0;
    std::string message, plan;  // of the shortest Plan
  };

  double Share(int count) const { return plans_ == 0 ? 0 : static_cast<double>(count) / plans_; }

  int plans_ = 0, groups_ = 0, two_flat_axes_ = 0, updates_or_stores_ = 0;
  std::array<int, kNumOutcomeKinds> outcomes_ = {};
  std::array<std::map<std::string, Kind>, kNumOutcomeKinds> messages_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_SUMMARY_H_
