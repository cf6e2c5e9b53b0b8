#include "tools/train/sample.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/model/language_model.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/text_stream.h"
#include "core/train/data/text_dataset.h"
#include "core/train/sampling.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {
namespace {

// "300 tokens, temperature 0.8, top_k 20, seed 1"
std::string Description(const SampleConfig& sample, uint64_t seed) {
  std::string text =
      absl::StrCat(Counted(sample.tokens(), "token"), ", temperature ", sample.temperature());
  if (sample.top_k() > 0) absl::StrAppend(&text, ", top_k ", sample.top_k());
  return absl::StrCat(text, ", seed ", seed);
}

}  // namespace

absl::Status PrintSample(const ConfiguredRun& configured, Engine& engine, StopRequest& stop) {
  const SampleConfig& sample = configured.config.sample();
  // A model continues a text: without a prompt, an empty line.
  const std::string prompt = sample.prompt().empty() ? "\n" : sample.prompt();
  std::vector<int32_t> tokens;
  for (char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  GenerationRequest request;
  request.prompt = tokens;
  request.tokens = sample.tokens();
  request.temperature = sample.temperature();
  request.top_k = sample.top_k();
  request.seed = configured.config.seed();
  request.allowed_tokens = kByteTokens;
  request.max_sequence = configured.model->AsLanguageModel()->max_sequence();

  if (!sample.prompt().empty()) {
    TextStream stream;
    absl::FPrintF(Output(), "--- prompt\n%s%s\n", stream.Add(sample.prompt()), stream.Finish());
  }
  absl::FPrintF(Output(), "--- sample: %s\n", Description(sample, configured.config.seed()));
  std::fflush(Output());
  const bool is_alone = configured.ranks.ranks->size() == 1;
  bool output_failed = false;
  request.agree = [&](int32_t token) -> absl::StatusOr<int32_t> {
    ASSIGN_OR_RETURN(const StopRequest::Report agreed,
                     stop.Agree({.output_failed = std::ferror(Output()) != 0, .token = token}));
    output_failed = agreed.output_failed;
    return agreed.token;
  };
  TextStream stream;
  absl::Status status = Generate(engine, request, [&](int32_t token) {
    const char byte = static_cast<char>(token);
    absl::FPrintF(Output(), "%s", stream.Add(absl::string_view(&byte, 1)));
    std::fflush(Output());
    // Ranks agree on whether to continue.
    const bool failed = output_failed || (is_alone && std::ferror(Output()) != 0);
    return stop.signal() == 0 && !failed;
  });
  absl::FPrintF(Output(), "%s\n---\n", stream.Finish());
  std::fflush(Output());
  return status;
}

}  // namespace tessera
