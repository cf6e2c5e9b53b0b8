#include "core/train/data/text_dataset.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/train/data/testing/read_rows.h"
#include "core/train/data/testing/texts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<TextDataset> OpenText(const std::string& text, int64_t sequence,
                                      uint64_t seed = 1) {
  const std::string path = WriteText("open.txt", text);
  auto dataset = TextDataset::Open(path, sequence, seed);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

// Reads the rows of batch `index`, each with all of its elements.
TokenRows ReadBatch(const TextDataset& dataset, DataSplit split, int64_t index, int64_t batch) {
  return ReadTokens(dataset, split, {{index * batch, 0}, {batch, dataset.fields()[0].elements()}});
}

// The offset in the text of one row's window.
size_t FindWindow(const std::string& text, const TokenRows& batch, int64_t row, int64_t sequence) {
  std::string window;
  for (int64_t i = 0; i < sequence; ++i) {
    window += static_cast<char>(batch.tokens[row * sequence + i]);
    if (i == 0) continue;
    EXPECT_EQ(batch.tokens[row * sequence + i], batch.targets[row * sequence + i - 1]);
  }
  window += static_cast<char>(batch.targets[(row + 1) * sequence - 1]);
  const size_t at = text.find(window);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(text.find(window, at + 1), std::string::npos);
  return at;
}

TEST(TextDatasetTest, HoldsOutTheLastTenth) {
  auto dataset = OpenText(MixedText(1009), 7);
  EXPECT_EQ(dataset->training_bytes(), 909);
  EXPECT_EQ(dataset->evaluation_bytes(), 100);
  EXPECT_EQ(dataset->evaluation_windows(), 12);
  EXPECT_EQ(FieldsText(dataset->fields()), "tokens i32[7] and targets i32[7]");
  EXPECT_EQ(dataset->fields()[0].limit, 256);
}

TEST(TextDatasetTest, HoldsOutAWindowOfAShortText) {
  auto dataset = OpenText(MixedText(16), 7);
  EXPECT_EQ(dataset->training_bytes(), 8);
  EXPECT_EQ(dataset->training_windows(), 1);
  EXPECT_EQ(dataset->evaluation_windows(), 1);
  const TokenRows batch = ReadBatch(*dataset, DataSplit::kTrain, 3, 2);
  EXPECT_EQ(FindWindow(MixedText(16), batch, 0, 7), 0u);
  EXPECT_EQ(FindWindow(MixedText(16), batch, 1, 7), 0u);
}

TEST(TextDatasetTest, ReadsEveryWindowOnceInAnEpoch) {
  const int64_t sequence = 6, window = sequence + 1;
  const std::string text = MixedText(2000);
  auto dataset = OpenText(text, sequence);
  const int64_t windows = dataset->training_windows();
  EXPECT_EQ(windows, (1800 - 6) / 7);
  std::set<size_t> offsets;
  std::set<std::vector<size_t>> orders;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    std::vector<size_t> starts;
    for (int64_t i = 0; i < windows; ++i) {
      // One row per batch: the row's number is the batch's.
      const TokenRows batch = ReadBatch(*dataset, DataSplit::kTrain, epoch * windows + i, 1);
      starts.push_back(FindWindow(text, batch, 0, sequence));
    }
    std::vector<size_t> sorted = starts;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_NE(sorted, starts);
    EXPECT_LT(sorted.front(), static_cast<size_t>(window));
    for (int64_t i = 0; i < windows; ++i) ASSERT_EQ(sorted[i], sorted[0] + i * window);
    EXPECT_LE(sorted.back() + window, 1800u) << "a window reaches into the held-out split";
    offsets.insert(sorted.front());
    for (size_t& start : starts) start -= sorted.front();
    orders.insert(starts);
  }
  EXPECT_GE(offsets.size(), 4u) << "borders of windows must move";
  EXPECT_EQ(orders.size(), 12u);
}

TEST(TextDatasetTest, ABatchMayBeginAtAnyRow) {
  const std::string text = MixedText(300);
  auto dataset = OpenText(text, 9);
  for (int64_t first : {1, 2, 3, 7, 30}) {
    const TokenRows batch = ReadTokens(*dataset, DataSplit::kTrain, {{first, 0}, {4, 9}});
    for (int64_t row = 0; row < 4; ++row) {
      const TokenRows alone = ReadBatch(*dataset, DataSplit::kTrain, first + row, 1);
      EXPECT_TRUE(
          std::equal(alone.tokens.begin(), alone.tokens.end(), batch.tokens.begin() + row * 9));
    }
  }
}

TEST(TextDatasetTest, BatchesCrossEpochs) {
  const std::string text = MixedText(300);
  auto dataset = OpenText(text, 9);
  const int64_t windows = dataset->training_windows();
  ASSERT_NE(windows % 4, 0);
  for (int64_t index = 0; index < 3 * windows; ++index) {
    const TokenRows batch = ReadBatch(*dataset, DataSplit::kTrain, index, 4);
    for (int64_t row = 0; row < 4; ++row) {
      const TokenRows alone = ReadBatch(*dataset, DataSplit::kTrain, index * 4 + row, 1);
      EXPECT_EQ(FindWindow(text, batch, row, 9), FindWindow(text, alone, 0, 9));
    }
  }
}

TEST(TextDatasetTest, PartsAreThoseOfTheRows) {
  auto dataset = OpenText(MixedText(3000), 12);
  for (DataSplit split : {DataSplit::kTrain, DataSplit::kEvaluate}) {
    for (int64_t first : {0, 6, 17}) {
      const TokenRows all = ReadTokens(*dataset, split, {{first, 0}, {6, 12}});
      for (const auto& [row, rows] : {std::pair<int64_t, int64_t>{0, 6}, {0, 3}, {3, 3}, {4, 0}}) {
        for (const auto& [column, columns] :
             {std::pair<int64_t, int64_t>{0, 12}, {0, 4}, {4, 8}, {11, 1}, {5, 0}}) {
          const TokenRows part =
              ReadTokens(*dataset, split, {{first + row, column}, {rows, columns}});
          size_t at = 0;
          for (int64_t r = row; r < row + rows; ++r) {
            for (int64_t c = column; c < column + columns; ++c, ++at) {
              ASSERT_EQ(part.tokens[at], all.tokens[r * 12 + c]);
              ASSERT_EQ(part.targets[at], all.targets[r * 12 + c]);
            }
          }
        }
      }
    }
  }
}

TEST(TextDatasetTest, OrderDependsOnTheSeedOnly) {
  const std::string text = MixedText(3000);
  const auto first = [&](uint64_t seed) {
    return ReadBatch(*OpenText(text, 12, seed), DataSplit::kTrain, 5, 8).tokens;
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST(TextDatasetTest, EvaluatesTheHeldOutSplitInOrder) {
  const std::string text = MixedText(2000);
  auto dataset = OpenText(text, 8);
  EXPECT_EQ(dataset->EvaluationRows(), 22);
  const TokenRows all = ReadTokens(*dataset, DataSplit::kEvaluate, {{0, 0}, {22, 8}});
  for (int64_t row = 0; row < 22; ++row) EXPECT_EQ(FindWindow(text, all, row, 8), 1800u + row * 9);
}

TEST(TextDatasetTest, BytesAbove127StayPositive) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "\xc3\xa4\xe2\x82\xac";  // "ä€"
  const TokenRows batch = ReadBatch(*OpenText(text, 10), DataSplit::kTrain, 0, 4);
  for (int32_t token : batch.tokens) EXPECT_TRUE(token >= 0x82 && token <= 0xe2) << token;
}

TEST(TextDatasetTest, RefusesWrongReads) {
  auto dataset = OpenText(MixedText(1000), 9);
  const auto code = [&](size_t field, const Box& box, size_t bytes,
                        DataSplit split = DataSplit::kTrain) {
    std::vector<char> read(bytes);
    return dataset->Read(split, field, box, absl::MakeSpan(read)).code();
  };
  EXPECT_EQ(code(0, {{0, 0}, {2, 9}}, 72), absl::StatusCode::kOk);
  EXPECT_EQ(code(1, {{0, 8}, {2, 1}}, 8), absl::StatusCode::kOk);
  EXPECT_EQ(code(1, {{0, 9}, {2, 0}}, 0), absl::StatusCode::kOk);
  struct Wrong {
    size_t field;
    Box box;
    size_t bytes;
  };
  for (const Wrong& wrong : {Wrong{2, {{0, 0}, {2, 9}}, 72},
                             {0, {{0, 0}, {2, 9}}, 71},
                             {0, {{0, 0}, {2, 9}}, 76},
                             {0, {{0, 0}, {2, 9}}, 0},
                             {0, {{0, 0}, {2, 10}}, 80},
                             {0, {{0, 5}, {2, 5}}, 40},
                             {0, {{0, -1}, {2, 9}}, 72},
                             {0, {{0, 0}, {2, -9}}, 0},
                             {0, {{0, 0}, {0, 9}}, 4},
                             {0, {{0}, {2}}, 8},
                             {0, {{0, 0, 0}, {2, 9, 1}}, 72}}) {
    EXPECT_EQ(code(wrong.field, wrong.box, wrong.bytes), absl::StatusCode::kInvalidArgument)
        << wrong.field << " " << ShapeToString(wrong.box.start) << ShapeToString(wrong.box.extent);
  }
  EXPECT_EQ(code(0, {{-1, 0}, {2, 9}}, 72), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(0, {{INT64_MAX - 1, 0}, {2, 9}}, 72), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(0, {{9, 0}, {2, 9}}, 72, DataSplit::kEvaluate), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(0, {{8, 0}, {2, 9}}, 72, DataSplit::kEvaluate), absl::StatusCode::kOk);
  // The last rows whose numbers fit into 64 bits.
  EXPECT_EQ(code(0, {{INT64_MAX - 2, 0}, {2, 9}}, 72), absl::StatusCode::kOk);
}

TEST(TextDatasetTest, TheFingerprintIsThatOfTheBytes) {
  const std::string text = MixedText(1000);
  const std::string fingerprint = OpenText(text, 16)->Fingerprint();
  EXPECT_THAT(fingerprint, ::testing::MatchesRegex("text of 1000 bytes, XXH3-128 [0-9a-f]+"));
  EXPECT_EQ(OpenText(text, 9, 7)->Fingerprint(), fingerprint);
  std::string other = text;
  other[500] ^= 1;
  EXPECT_NE(OpenText(other, 16)->Fingerprint(), fingerprint);
}

std::string OpenError(const std::string& path, absl::StatusCode code, int64_t sequence = 16) {
  auto dataset = TextDataset::Open(path, sequence, 1);
  EXPECT_EQ(dataset.status().code(), code) << dataset.status();
  std::string message(dataset.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(TextDatasetTest, ErrorsNameTheFileAndTheFault) {
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(OpenError(folder + "/none.txt", absl::StatusCode::kNotFound),
              HasSubstr("none.txt: cannot open the file: No such file or directory"));
  EXPECT_THAT(OpenError(folder, absl::StatusCode::kInvalidArgument), HasSubstr("is a folder"));
  EXPECT_THAT(OpenError(WriteText("empty.txt", ""), absl::StatusCode::kInvalidArgument),
              HasSubstr("empty.txt: the file is empty"));
  const std::string pipe = folder + "/pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(OpenError(pipe, absl::StatusCode::kInvalidArgument), HasSubstr("not a regular file"));
  EXPECT_THAT(OpenError(WriteText("short.txt", MixedText(33)), absl::StatusCode::kInvalidArgument),
              HasSubstr("need 17 bytes each, so 34 bytes or more would be right, or sequences of "
                        "15 tokens or fewer"));
  EXPECT_TRUE(TextDataset::Open(WriteText("enough.txt", MixedText(34)), 16, 1).ok());
  EXPECT_THAT(OpenError(WriteText("tiny.txt", "ab"), absl::StatusCode::kInvalidArgument),
              HasSubstr("34 bytes or more would be right"));
  for (int64_t sequence : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    EXPECT_THAT(
        OpenError(WriteText("ok.txt", MixedText(50)), absl::StatusCode::kInvalidArgument, sequence),
        HasSubstr("1 to 2147483647 would be right"));
  }
}

TEST(TextDatasetTest, NamesTheByteThatIsNotUtf8) {
  const std::string lines(40, 'a');
  const auto error = [&](const std::string& text) {
    return OpenError(WriteText("bad.txt", text), absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(error(lines + "\n" + lines + "\nab\xff" + lines),
              HasSubstr("is not UTF-8 text: byte 0xff at offset 84, in line 3"));
  EXPECT_THAT(error(lines + "\xc3("), HasSubstr("byte 0xc3 at offset 40, in line 1"));
  EXPECT_THAT(error(lines + "\xe2\x82"), HasSubstr("byte 0xe2 at offset 40"));          // cut off
  EXPECT_THAT(error(lines + "\xc0\xaf"), HasSubstr("byte 0xc0 at offset 40"));          // overlong
  EXPECT_THAT(error(lines + "\xed\xa0\x80"), HasSubstr("byte 0xed at offset 40"));      // surrogate
  EXPECT_THAT(error(lines + "\xf4\x90\x80\x80"), HasSubstr("byte 0xf4 at offset 40"));  // > 10ffff
  EXPECT_THAT(error(lines + std::string(1, '\0')), HasSubstr("byte 0x00 at offset 40"));
}

}  // namespace
}  // namespace tessera
