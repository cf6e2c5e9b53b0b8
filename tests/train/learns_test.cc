// Checks that the default preset learns more about the default corpus than the frequencies of byte
// pairs.
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

// Returns the mean loss on the last tenth of `text` of a bigram model: it predicts a byte from the
// previous one, by the counts of pairs in the other nine tenths (each count plus 1).
double BigramLoss(const std::string& text) {
  const size_t training = text.size() - text.size() / 10;
  using Row = std::array<double, 257>;  // counts of each next byte, and their sum
  auto counts = std::make_unique<std::array<Row, 256>>();
  for (Row& row : *counts) {
    row.fill(1);
    row[256] = 256;
  }
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 1; i < training; ++i) {
    ++(*counts)[at(i - 1)][at(i)];
    ++(*counts)[at(i - 1)][256];
  }
  double loss = 0;
  for (size_t i = training + 1; i < text.size(); ++i) {
    const Row& row = (*counts)[at(i - 1)];
    loss -= std::log(row[at(i)] / row[256]);
  }
  return loss / static_cast<double>(text.size() - training - 1);
}

TEST(DefaultRun, BeatsBytePairsBeforeASixthOfItIsOver) {
  const std::string corpus = ReadFile("third_party/bible_kjv/bible_kjv.txt");
  ASSERT_GT(corpus.size(), 4000000u);
  const double bigrams = BigramLoss(corpus);
  EXPECT_NEAR(bigrams, 2.41, 0.02);

  const std::string folder = NewFolder() + "/run";
  // One thread: on cores shared with other tests, two threads would wait for each other.
  const Result run =
      RunProgram(GptProgram(), {"--steps=250", "--eval_every=0", "--save_every=0",
                                "--sample_tokens=20", "--threads=1", "--out=" + folder});
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json last = Metrics(folder).back();
  ASSERT_TRUE(last.contains("eval_loss")) << last;
  EXPECT_LT(last["eval_loss"].get<double>(), bigrams);
}

}  // namespace
}  // namespace tessera
