#include "strategies/host/known_costs.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

std::string KeyOf(const Plan& plan) {
  const std::string bytes = plan.SerializeAsString();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrCat(absl::Hex(hash.high64), " ", absl::Hex(hash.low64));
}

}  // namespace

std::optional<StepCost> KnownCosts::Find(const Plan& plan) const {
  const std::string key = KeyOf(plan);
  const MutexLock lock(&mutex_);
  const auto found = costs_.find(key);
  if (found == costs_.end()) return std::nullopt;
  return found->second;
}

void KnownCosts::Add(const Plan& plan, const StepCost& cost) {
  std::string key = KeyOf(plan);
  const MutexLock lock(&mutex_);
  if (!costs_.insert({key, cost}).second) return;
  keys_.push_back(std::move(key));
  if (keys_.size() <= kMost) return;
  costs_.erase(keys_.front());
  keys_.pop_front();
}

}  // namespace tessera
