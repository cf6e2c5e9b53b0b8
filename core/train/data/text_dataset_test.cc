#include "core/train/data/text_dataset.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/train/data/testing/texts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::unique_ptr<TextDataset> OpenText(const std::string& text, int64_t sequence,
                                      uint64_t seed = 1) {
  const std::string path = WriteText("open.txt", text);
  auto dataset = TextDataset::Open(path, sequence, seed);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
};

Batch ReadPart(const Dataset& dataset, DataSplit split, int64_t index, BatchShape shape,
               IndexRange rows, IndexRange columns) {
  Batch batch;
  batch.tokens.resize(rows.size() * columns.size(), -7);
  batch.targets.resize(rows.size() * columns.size(), -7);
  const absl::Status status =
      dataset.Read(split, index * shape.batch, shape, rows, columns, absl::MakeSpan(batch.tokens),
                   absl::MakeSpan(batch.targets));
  EXPECT_TRUE(status.ok()) << status;
  return batch;
}

Batch ReadBatch(const Dataset& dataset, DataSplit split, int64_t index, BatchShape shape) {
  return ReadPart(dataset, split, index, shape, {0, shape.batch}, {0, shape.sequence});
}

// The offset in the text of one row's window.
size_t FindWindow(const std::string& text, const Batch& batch, int64_t row, int64_t sequence) {
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
  EXPECT_EQ(dataset->vocabulary(), 256);
}

TEST(TextDatasetTest, HoldsOutAWindowOfAShortText) {
  auto dataset = OpenText(MixedText(16), 7);
  EXPECT_EQ(dataset->training_bytes(), 8);
  EXPECT_EQ(dataset->training_windows(), 1);
  EXPECT_EQ(dataset->evaluation_windows(), 1);
  const Batch batch = ReadBatch(*dataset, DataSplit::kTrain, 3, {2, 7});
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
      const Batch batch =
          ReadBatch(*dataset, DataSplit::kTrain, epoch * windows + i, {1, sequence});
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
    std::vector<int32_t> tokens(4 * 9), targets(4 * 9);
    ASSERT_TRUE(dataset
                    ->Read(DataSplit::kTrain, first, {4, 9}, {0, 4}, {0, 9}, absl::MakeSpan(tokens),
                           absl::MakeSpan(targets))
                    .ok());
    for (int64_t row = 0; row < 4; ++row) {
      const Batch alone = ReadBatch(*dataset, DataSplit::kTrain, first + row, {1, 9});
      EXPECT_TRUE(std::equal(alone.tokens.begin(), alone.tokens.end(), tokens.begin() + row * 9));
    }
  }
}

TEST(TextDatasetTest, BatchesCrossEpochs) {
  const std::string text = MixedText(300);
  auto dataset = OpenText(text, 9);
  const int64_t windows = dataset->training_windows();
  ASSERT_NE(windows % 4, 0);
  for (int64_t index = 0; index < 3 * windows; ++index) {
    const Batch batch = ReadBatch(*dataset, DataSplit::kTrain, index, {4, 9});
    for (int64_t row = 0; row < 4; ++row) {
      const Batch alone = ReadBatch(*dataset, DataSplit::kTrain, index * 4 + row, {1, 9});
      EXPECT_EQ(FindWindow(text, batch, row, 9), FindWindow(text, alone, 0, 9));
    }
  }
}

TEST(TextDatasetTest, RangesAgreeWithTheGlobalBatch) {
  auto dataset = OpenText(MixedText(3000), 12);
  const BatchShape shape{6, 12};
  for (DataSplit split : {DataSplit::kTrain, DataSplit::kEvaluate}) {
    for (int64_t index : {0, 1, 3}) {
      const Batch all = ReadBatch(*dataset, split, index, shape);
      for (IndexRange rows : {IndexRange{0, 6}, {0, 3}, {3, 6}, {2, 3}, {4, 4}}) {
        for (IndexRange columns : {IndexRange{0, 12}, {0, 4}, {4, 12}, {11, 12}, {5, 5}}) {
          const Batch part = ReadPart(*dataset, split, index, shape, rows, columns);
          size_t at = 0;
          for (int64_t row = rows.begin; row < rows.end; ++row) {
            for (int64_t column = columns.begin; column < columns.end; ++column, ++at) {
              ASSERT_EQ(part.tokens[at], all.tokens[row * 12 + column]);
              ASSERT_EQ(part.targets[at], all.targets[row * 12 + column]);
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
    return ReadBatch(*OpenText(text, 12, seed), DataSplit::kTrain, 5, {8, 12}).tokens;
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST(TextDatasetTest, EvaluatesTheHeldOutSplitInOrder) {
  const std::string text = MixedText(2000);
  auto dataset = OpenText(text, 8);
  EXPECT_EQ(dataset->evaluation_windows(), 22);
  EXPECT_EQ(dataset->EvaluationBatches({4, 8}), 6);
  EXPECT_EQ(dataset->EvaluationBatches({11, 8}), 2);
  EXPECT_EQ(dataset->EvaluationBatches({100, 8}), 1);
  for (int64_t index = 0; index < 6; ++index) {
    const Batch batch = ReadBatch(*dataset, DataSplit::kEvaluate, index, {4, 8});
    for (int64_t row = 0; row < 4; ++row) {
      if (index * 4 + row < 22) {
        EXPECT_EQ(FindWindow(text, batch, row, 8), 1800u + (index * 4 + row) * 9);
      } else {
        EXPECT_THAT(absl::MakeSpan(batch.tokens).subspan(row * 8, 8), Each(0));
        EXPECT_THAT(absl::MakeSpan(batch.targets).subspan(row * 8, 8), Each(kIgnoredTarget));
      }
    }
  }
}

TEST(TextDatasetTest, BytesAbove127StayPositive) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "\xc3\xa4\xe2\x82\xac";  // "ä€"
  const Batch batch = ReadBatch(*OpenText(text, 10), DataSplit::kTrain, 0, {4, 10});
  for (int32_t token : batch.tokens) EXPECT_TRUE(token >= 0x82 && token <= 0xe2) << token;
}

absl::Status ReadStatus(const Dataset& dataset, DataSplit split, int64_t first_row,
                        BatchShape shape, IndexRange rows, IndexRange columns, size_t tokens,
                        size_t targets) {
  std::vector<int32_t> token(tokens), target(targets);
  const absl::Status read = dataset.Read(split, first_row, shape, rows, columns,
                                         absl::MakeSpan(token), absl::MakeSpan(target));
  return read.ok() ? dataset.Compare() : read;
}

TEST(TextDatasetTest, RefusesWrongReads) {
  auto dataset = OpenText(MixedText(1000), 9);
  const auto status = [&](int64_t first_row, BatchShape shape, IndexRange rows, IndexRange columns,
                          size_t tokens, size_t targets, DataSplit split = DataSplit::kTrain) {
    return ReadStatus(*dataset, split, first_row, shape, rows, columns, tokens, targets);
  };
  EXPECT_TRUE(status(0, {2, 9}, {0, 2}, {0, 9}, 18, 18).ok());
  for (const absl::Status& wrong :
       {status(0, {2, 9}, {0, 2}, {0, 9}, 17, 18), status(0, {2, 9}, {0, 2}, {0, 9}, 18, 0),
        status(0, {2, 9}, {0, 3}, {0, 9}, 27, 27), status(0, {2, 9}, {-1, 1}, {0, 9}, 18, 18),
        status(0, {2, 9}, {0, 2}, {0, 10}, 20, 20), status(0, {2, 9}, {0, 2}, {5, 4}, 0, 0),
        status(0, {0, 9}, {0, 0}, {0, 9}, 0, 0), status(0, {2, -1}, {0, 2}, {0, 0}, 0, 0)}) {
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(std::string(status(0, {2, 8}, {0, 2}, {0, 8}, 16, 16).message()),
              HasSubstr("cannot read sequences of 8 tokens: the file was opened for 9"));
  for (const absl::Status& wrong :
       {status(-1, {2, 9}, {0, 2}, {0, 9}, 18, 18),
        status(INT64_MAX - 1, {2, 9}, {0, 2}, {0, 9}, 18, 18),
        status(10, {2, 9}, {0, 2}, {0, 9}, 18, 18, DataSplit::kEvaluate)}) {
    EXPECT_EQ(wrong.code(), absl::StatusCode::kOutOfRange) << wrong;
  }
  // The last batch whose row numbers fit into 64 bits.
  EXPECT_TRUE(status(INT64_MAX - 2, {2, 9}, {0, 2}, {0, 9}, 18, 18).ok());
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
