#include "core/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/tensor/random.h"
#include "core/train/programs.h"

namespace tessera {
namespace {

// Returns whether the Program reads its input "position".
bool ReadsPosition(const Program& program) {
  const ProgramValueId position = program.FindInput("position");
  if (position == kNone) return false;
  for (const Instruction& instruction : program.instructions) {
    for (ProgramValueId input : instruction.inputs) {
      if (program.value(input).buffer == program.value(position).buffer) return true;
    }
  }
  return false;
}

// Feeds tokens to the Program and keeps the logits that follow the last one.
class Feeder {
 public:
  Feeder(Engine& engine, int64_t vocabulary) : engine_(engine), logits_(vocabulary) {}

  // Begins a new context.
  absl::Status Clear() {
    position_ = 0;
    return engine_.ClearCaches(kGenerate);
  }

  // Appends a token to the context. Runs the Program, which reads the tokens before it in its
  // caches.
  absl::Status Feed(int32_t token) {
    RETURN_IF_ERROR(engine_.SetInput(kGenerate, "token", absl::MakeConstSpan(&token, 1)));
    RETURN_IF_ERROR(engine_.SetScalarIfRead(kGenerate, "position", position_));
    ++position_;
    return engine_.Run(kGenerate);
  }

  // Returns the logits for the token after the last one; valid until the next call.
  absl::StatusOr<absl::Span<const double>> Logits() {
    RETURN_IF_ERROR(engine_.ReadOutput(kGenerate, "logits", absl::MakeSpan(logits_)));
    return absl::MakeConstSpan(logits_);
  }

  int64_t position() const { return position_; }

 private:
  Engine& engine_;
  int64_t position_ = 0;  // of the next token
  std::vector<double> logits_;
};

}  // namespace

int32_t SampleToken(absl::Span<const double> logits, double temperature, int64_t top_k,
                    double uniform) {
  const auto more_probable = [&](int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) tokens.push_back(static_cast<int32_t>(i));
  }
  if (tokens.empty()) return 0;
  const int32_t best = *std::min_element(tokens.begin(), tokens.end(), more_probable);
  if (temperature <= 0) return best;
  if (top_k > 0 && top_k < static_cast<int64_t>(tokens.size())) {
    std::nth_element(tokens.begin(), tokens.begin() + top_k - 1, tokens.end(), more_probable);
    tokens.resize(top_k);
    std::sort(tokens.begin(), tokens.end());
  }
  std::vector<double> weights;
  weights.reserve(tokens.size());
  for (int32_t token : tokens) {
    weights.push_back(std::exp((logits[token] - logits[best]) / temperature));
  }
  double remaining = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    remaining -= weights[i];
    if (remaining < 0) return tokens[i];
  }
  return best;  // rounding errors exceeded the last weight
}

absl::Status Generate(Engine& engine, const GenerationRequest& request,
                      const std::function<bool(int32_t token)>& receive) {
  TESSERA_CHECK(!request.prompt.empty());
  const Program& program = engine.executor(kGenerate).program();
  const int64_t vocabulary = NumElements(program.value(program.FindOutput("logits")).type.shape);
  const size_t allowed = static_cast<size_t>(std::min(vocabulary, request.allowed_tokens));
  // A model that reads positions has only max_sequence of them. Another one has a window of that
  // many tokens, which is filled first.
  const bool has_positions = ReadsPosition(program);
  const RandomStream stream = MakeStream(request.seed, "sample");

  std::vector<int32_t> context(request.prompt.begin(), request.prompt.end());
  Feeder feeder(engine, vocabulary);
  RETURN_IF_ERROR(feeder.Clear());
  if (!has_positions) {
    for (int64_t i = 1; i < request.max_sequence; ++i) {
      RETURN_IF_ERROR(feeder.Feed(context.front()));
    }
  }
  size_t fed = 0;
  for (int64_t n = 0; n < request.tokens; ++n) {
    if (has_positions &&
        static_cast<int64_t>(context.size() - fed) + feeder.position() > request.max_sequence) {
      // Begins anew with the last half of the context.
      RETURN_IF_ERROR(feeder.Clear());
      fed = context.size() - static_cast<size_t>((request.max_sequence + 1) / 2);
    }
    for (; fed < context.size(); ++fed) RETURN_IF_ERROR(feeder.Feed(context[fed]));
    ASSIGN_OR_RETURN(const absl::Span<const double> logits, feeder.Logits());
    int32_t token = SampleToken(logits.subspan(0, allowed), request.temperature, request.top_k,
                                RandomUniform(stream, n, 0));
    if (request.agree != nullptr) {
      ASSIGN_OR_RETURN(token, request.agree(token));
    }
    context.push_back(token);
    if (!receive(token)) break;
  }
  return absl::OkStatus();
}

}  // namespace tessera
