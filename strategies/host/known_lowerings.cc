#include "strategies/host/known_lowerings.h"

#include <xxhash.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

std::string KeyOf(const Plan& plan) {
  const std::string bytes = plan.SerializeAsString();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrCat(absl::Hex(hash.high64), " ", absl::Hex(hash.low64));
}

}  // namespace

std::optional<KnownLowerings::Lowered> KnownLowerings::Find(const Plan& plan, bool sections) const {
  const std::string key = KeyOf(plan);
  const MutexLock lock(&mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  const Known& known = found->second;
  if (sections) return known.sections ? std::make_optional(known.lowered) : std::nullopt;
  Lowered lowered;
  *lowered.mutable_cost() = known.lowered.cost();
  return lowered;
}

void KnownLowerings::Add(const Plan& plan, const Lowered& lowered, bool sections) {
  std::string key = KeyOf(plan);
  Known added = {lowered, sections, static_cast<int64_t>(lowered.SpaceUsedLong())};
  const MutexLock lock(&mutex_);
  const auto [found, is_new] = known_.try_emplace(key);
  if (!is_new && (found->second.sections || !sections)) return;
  bytes_ += added.bytes - found->second.bytes;
  found->second = std::move(added);
  if (is_new) keys_.push_back(std::move(key));
  while (bytes_ > kMostBytes) {
    const auto oldest = known_.find(keys_.front());
    bytes_ -= oldest->second.bytes;
    known_.erase(oldest);
    keys_.pop_front();
  }
}

}  // namespace tessera
