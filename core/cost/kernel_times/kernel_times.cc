#include "core/cost/kernel_times/kernel_times.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace tessera {

const KernelSeconds& BestOf(const CandidateSeconds& candidates) {
  const KernelSeconds& by_rule = candidates.front();
  const auto fastest = std::min_element(
      candidates.begin(), candidates.end(),
      [](const KernelSeconds& a, const KernelSeconds& b) { return a.seconds < b.seconds; });
  return fastest->seconds < kWorthChoosing * by_rule.seconds ? *fastest : by_rule;
}

const CandidateSeconds* KernelTimes::Find(const std::string& key) const {
  const auto found = requests_.find(key);
  return found == requests_.end() ? nullptr : &found->second;
}

void KernelTimes::Set(const std::string& key, CandidateSeconds candidates) {
  requests_[key] = std::move(candidates);
}

void KernelTimes::SetAll(const KernelTimes& other) {
  for (const auto& [key, candidates] : other.requests()) requests_[key] = candidates;
}

bool AreOf(const CandidateSeconds& times, const std::vector<const Kernel*>& candidates) {
  return std::equal(times.begin(), times.end(), candidates.begin(), candidates.end(),
                    [](const KernelSeconds& measured, const Kernel* kernel) {
                      return measured.kernel == kernel->name();
                    });
}

KernelChoices ChoicesBy(const KernelTimes& times, const KernelCatalogue& catalogue) {
  KernelChoices choices;
  const Processor processor = catalogue.processor();
  choices.set_backend(std::string(catalogue.name()));
  choices.set_processor(processor.name);
  choices.set_threads(processor.threads);
  for (const auto& [request, candidates] : times.requests()) {
    KernelChoice& choice = *choices.add_choices();
    choice.set_request(request);
    choice.set_kernel(BestOf(candidates).kernel);
  }
  return choices;
}

bool AreForTheSame(const KernelChoices& a, const KernelChoices& b) {
  return a.backend() == b.backend() && a.processor() == b.processor() && a.threads() == b.threads();
}

void FillInKernels(const KernelChoices& preferred, Plan& plan) {
  if (preferred.choices_size() == 0) return;
  KernelChoices& kernels = *plan.mutable_kernels();
  if (!AreForTheSame(kernels, preferred)) {
    kernels = preferred;
    return;
  }
  absl::flat_hash_set<std::string> chosen;
  for (const KernelChoice& choice : kernels.choices()) chosen.insert(choice.request());
  for (const KernelChoice& choice : preferred.choices()) {
    if (!chosen.contains(choice.request())) *kernels.add_choices() = choice;
  }
}

}  // namespace tessera
