#include "tools/train/setup/schedule_of_run.h"

#include "absl/strings/str_format.h"
#include "core/train/schedule.h"

namespace tessera {
namespace {

bool Decays(const RunConfig& config) { return config.optimizer().schedule() != "constant"; }

}  // namespace

int64_t DecaySteps(const RunConfig& config, const RunConfig* saved) {
  if (!Decays(config) || config.optimizer().decay_steps() > 0) {
    return config.optimizer().decay_steps();
  }
  return saved != nullptr && Decays(*saved) ? saved->steps() : config.steps();
}

std::vector<std::string> ScheduleNotes(const RunConfig& config, const RunConfig* saved,
                                       int64_t step) {
  const OptimizerConfig& optimizer = config.optimizer();
  const auto rate = [&](int64_t at) { return LearningRate(optimizer, at, config.steps()); };
  std::vector<std::string> notes;
  if (optimizer.warmup_steps() > config.steps()) {
    notes.push_back(absl::StrFormat(
        "the warm-up of %d steps is longer than the run of %d: the learning rate reaches %.2e, not "
        "%.2e; --set=optimizer.warmup_steps=N shortens it",
        optimizer.warmup_steps(), config.steps(), rate(config.steps()), optimizer.lr()));
  }
  if (!Decays(config)) return notes;
  const int64_t end = DecaySteps(config, saved);
  if (end < config.steps()) {
    notes.push_back(
        absl::StrFormat("the learning rate ends its decay at step %d of %d, and stays at %.2e; "
                        "--set=optimizer.decay_steps=%d lets it decay until the end",
                        end, config.steps(), optimizer.min_lr(), config.steps()));
  }
  if (saved == nullptr || step >= config.steps()) return notes;
  const int64_t saved_end = DecaySteps(*saved, nullptr);
  if (!Decays(*saved) || saved_end != end) {
    // Steps count from 1.
    const std::string former =
        step == 0 ? ""
                  : absl::StrFormat(", after %.2e",
                                    LearningRate(saved->optimizer(), step, saved->steps()));
    notes.push_back(absl::StrFormat(
        "the learning rate decays until step %d now, %s: it is %.2e at step %d%s", end,
        Decays(*saved) ? absl::StrFormat("not %d", saved_end) : "and did not decay before",
        rate(step + 1), step + 1, former));
  }
  return notes;
}

}  // namespace tessera
