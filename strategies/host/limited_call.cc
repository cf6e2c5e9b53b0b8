#include "strategies/host/limited_call.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/proto/strategy.pb.h"
#include "strategies/host/plugin_call.h"

namespace tessera {
namespace {

using Clock = ChildProcess::Clock;

// How often the caller checks whether the user wants to end.
constexpr std::chrono::milliseconds kPoll{50};

// The messages of a plugin's process. The bytes of an error are the character of its code and the
// message; those of lowered Plans are as EncodeLowered writes them.
constexpr char kProgress = 'p', kLog = 'l', kExplanation = 'x', kLowered = 'w', kResult = 'r',
               kError = 'e';

// The size of the request, a space, the request, and the result.
std::string EncodeLowered(const strategy::LowerPlans& request,
                          const strategy::LoweredPlans& lowered) {
  const std::string plans = request.SerializeAsString();
  return absl::StrCat(plans.size(), " ", plans, lowered.SerializeAsString());
}

// Tells a context which Plans it has lowered in the plugin's process.
void Remember(absl::string_view message, const PlanningContext& context) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(message, absl::MaxSplits(' ', 1));
  size_t size = 0;
  if (!absl::SimpleAtoi(parts.first, &size) || size > parts.second.size()) return;
  strategy::LowerPlans request;
  strategy::LoweredPlans lowered;
  if (!request.ParseFromString(std::string(parts.second.substr(0, size))) ||
      !lowered.ParseFromString(std::string(parts.second.substr(size)))) {
    return;
  }
  context.Remember(request, lowered);
}

// Sends what a plugin reports, in its own process, to the host's process.
class ParentListener : public PluginListener {
 public:
  explicit ParentListener(ChildProcess::Parent* parent) : parent_(*parent) {}

  void Report(const strategy::Progress& progress) override {
    parent_.Send(kProgress, progress.SerializeAsString());
  }
  void Log(const std::string& text) override { parent_.Send(kLog, text); }
  void Explain(const strategy::Explanation& explanation) override {
    parent_.Send(kExplanation, explanation.SerializeAsString());
  }
  void Lowered(const strategy::LowerPlans& request,
               const strategy::LoweredPlans& lowered) override {
    parent_.Send(kLowered, EncodeLowered(request, lowered));
  }
  bool cancelled() override { return parent_.stop_requested(); }

  void Send(const absl::StatusOr<std::string>& result) {
    if (result.ok()) return parent_.Send(kResult, *result);
    const char code = static_cast<char>(result.status().code());
    parent_.Send(kError, absl::StrCat(absl::string_view(&code, 1), result.status().message()));
  }

 private:
  ChildProcess::Parent& parent_;
};

}  // namespace

absl::StatusOr<std::string> LimitedCall::Run(const Plugin& plugin, const PluginFunction& function,
                                             const std::string& request) {
  const auto body = [&](ChildProcess::Parent& parent) {
    ParentListener listener(&parent);
    PluginCall call(context_, options_.record, &listener);
    const auto result = call.Run(plugin, function.function, request);
    std::fflush(stdout);
    listener.Send(result);
  };
  // A new thread starts the process, because it has no OpenMP team yet: that of this thread would
  // lack its other threads there, and wait for them. The process ends with the thread.
  std::promise<absl::StatusOr<std::unique_ptr<ChildProcess>>> started;
  std::promise<void> call_ended;
  std::thread starter([&] {
    started.set_value(ChildProcess::Start(body));
    call_ended.get_future().wait();
  });
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = started.get_future().get();
  // Its code may be ResourceExhausted, which would mean that no Plan fits in memory.
  absl::StatusOr<std::string> result = absl::UnavailableError(absl::StrCat(
      "strategy ", plugin.name(), ": ", function.name, ": ", process.status().message()));
  if (process.ok()) result = Wait(plugin, function, **process);
  call_ended.set_value();
  starter.join();
  return result;
}

absl::StatusOr<std::string> LimitedCall::Wait(const Plugin& plugin, const PluginFunction& function,
                                              ChildProcess& process) {
  Clock::time_point end = Clock::now() + options_.limit;
  while (true) {
    ShowProgress();
    const bool stop = options_.stop && options_.stop();
    if (!was_stopped_ && (stop || Clock::now() >= end)) {
      was_stopped_ = true;
      process.RequestStop();
      end = Clock::now() + options_.grace;
    }
    ChildProcess::Message message;
    const bool grace_is_over = was_stopped_ && Clock::now() >= end;
    if (grace_is_over) process.End();  // what it has sent so far is still read
    const auto event = process.Receive(std::min(end, Clock::now() + kPoll), &message);
    if (event == ChildProcess::Event::kMessage) {
      if (auto result = HandleMessage(plugin, message)) return *std::move(result);
    } else if (grace_is_over) {
      return absl::CancelledError("");
    } else if (event == ChildProcess::Event::kEnd) {
      return absl::InternalError(absl::StrCat("strategy ", plugin.name(), ": ", function.name,
                                              " ended its process: ", process.End()));
    }
  }
}

std::optional<absl::StatusOr<std::string>> LimitedCall::HandleMessage(
    const Plugin& plugin, const ChildProcess::Message& message) {
  using Result = absl::StatusOr<std::string>;
  if (message.kind == kResult) return Result(message.bytes);
  if (message.kind == kError && !message.bytes.empty() && message.bytes[0] != 0) {
    return Result(
        absl::Status(static_cast<absl::StatusCode>(message.bytes[0]), message.bytes.substr(1)));
  }
  if (message.kind == kLog) Log(plugin, message.bytes);
  if (message.kind == kLowered) Remember(message.bytes, *context_);
  strategy::Explanation explanation;
  if (message.kind == kExplanation && explanation.ParseFromString(message.bytes)) {
    explanation_ = std::move(explanation);
  }
  strategy::Progress progress;
  if (message.kind != kProgress || !progress.ParseFromString(message.bytes)) return std::nullopt;
  if (progress.has_best()) best_ = progress.best();
  unshown_ = std::move(progress);
  return std::nullopt;
}

void LimitedCall::ShowProgress() {
  if (!unshown_.has_value() || Clock::now() - shown_ < options_.between_progress) return;
  shown_ = Clock::now();
  std::pair<double, std::string> progress(unshown_->fraction(), OneLine(unshown_->message()));
  unshown_.reset();
  // A search reports again what it has, while it looks for more.
  if (!options_.progress || progress == shown_progress_) return;
  options_.progress(progress.first, progress.second);
  shown_progress_ = std::move(progress);
}

void LimitedCall::Log(const Plugin& plugin, const std::string& text) const {
  for (const absl::string_view part : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    const std::string line = absl::StrCat("strategy ", plugin.name(), ": ", OneLine(part));
    if (options_.log) {
      options_.log(line);
    } else {
      absl::FPrintF(stderr, "%s\n", line);
    }
  }
}

}  // namespace tessera
