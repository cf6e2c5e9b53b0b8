#include "tools/train/sample.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/counted.h"
#include "core/train/sampling.h"
#include "tools/train/data_source.h"
#include "tools/train/interrupt.h"
#include "tools/train/text_stream.h"

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

absl::Status PrintSample(const Setup& setup, Engine& engine) {
  const SampleConfig& sample = setup.config.sample();
  // A model continues a text: without a prompt, an empty line.
  const std::string prompt = sample.prompt().empty() ? "\n" : sample.prompt();
  std::vector<int32_t> tokens;
  for (char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  GenerationRequest request;
  request.prompt = tokens;
  request.tokens = sample.tokens();
  request.temperature = sample.temperature();
  request.top_k = sample.top_k();
  request.seed = setup.config.seed();
  request.allowed_tokens = kByteTokens;
  request.max_sequence = setup.model->max_sequence();

  if (!sample.prompt().empty()) {
    TextStream stream;
    absl::PrintF("--- prompt\n%s%s\n", stream.Add(sample.prompt()), stream.Finish());
  }
  absl::PrintF("--- sample: %s\n", Description(sample, setup.config.seed()));
  std::fflush(stdout);
  TextStream stream;
  absl::Status status = Generate(engine, request, [&stream](int32_t token) {
    const char byte = static_cast<char>(token);
    absl::PrintF("%s", stream.Add(absl::string_view(&byte, 1)));
    std::fflush(stdout);
    return Interrupted() == 0 && std::ferror(stdout) == 0;
  });
  absl::PrintF("%s\n---\n", stream.Finish());
  std::fflush(stdout);
  return status;
}

}  // namespace tessera
