#include "core/train/data/gzip_reader.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/train/data/testing/idx_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Returns all that comes out of compressed data in pieces of some bytes, or the error.
absl::StatusOr<std::string> ReadAll(absl::string_view compressed, size_t piece) {
  GzipReader reader(compressed);
  std::string all, bytes(piece, '\0');
  while (true) {
    const absl::StatusOr<size_t> count = reader.Read(absl::MakeSpan(&bytes[0], piece));
    if (!count.ok()) {
      EXPECT_EQ(reader.Read(absl::MakeSpan(&bytes[0], piece)).status(), count.status());
      return count.status();
    }
    all.append(bytes, 0, *count);
    if (*count < piece) return all;
  }
}

TEST(GzipReaderTest, ReturnsWhatWasCompressed) {
  for (int64_t bytes : {0, 1, 100, 70'000}) {
    const std::string data = SomeBytes(bytes);
    for (int level : {0, 1, 9}) {
      for (size_t piece : {1, 7, 4096, 1'000'000}) {
        SCOPED_TRACE(absl::StrCat(bytes, " bytes, level ", level, ", pieces of ", piece));
        const absl::StatusOr<std::string> all = ReadAll(Gzip(data, level), piece);
        ASSERT_TRUE(all.ok()) << all.status();
        EXPECT_EQ(*all, data);
      }
    }
  }
}

TEST(GzipReaderTest, ReadsOneMemberAfterAnother) {
  const std::string members = Gzip("one") + Gzip("") + Gzip(", two");
  for (size_t piece : {1, 3, 100}) {
    const absl::StatusOr<std::string> all = ReadAll(members, piece);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(*all, "one, two");
  }
}

TEST(GzipReaderTest, EveryShorterInputIsIncomplete) {
  const std::string compressed = Gzip(SomeBytes(300));
  for (size_t bytes = 0; bytes < compressed.size(); ++bytes) {
    const absl::Status status = ReadAll(compressed.substr(0, bytes), 100).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(status.message(), HasSubstr("its compressed data are incomplete: they end after"));
  }
}

TEST(GzipReaderTest, NoticesDamage) {
  const std::string data = SomeBytes(300), compressed = Gzip(data);
  size_t noticed = 0;
  for (size_t at = 0; at < compressed.size(); ++at) {
    std::string damaged = compressed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const absl::StatusOr<std::string> all = ReadAll(damaged, 100);
    if (!all.ok()) ++noticed;
    EXPECT_EQ(all.value_or(data), data) << at;
  }
  // A time and a system in the header do not matter, nor bits between the data and their sum.
  EXPECT_GE(noticed + 8, compressed.size());
  std::string wrong_sum = compressed;
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  EXPECT_THAT(ReadAll(wrong_sum, 1000).status().message(), HasSubstr("incorrect data check"));
}

TEST(GzipReaderTest, NothingElseMayFollow) {
  EXPECT_THAT(ReadAll(Gzip("data") + "more", 100).status().message(),
              HasSubstr("followed by 4 bytes of something else"));
}

// The bound that spares allocating what a header claims.
TEST(GzipReaderTest, NoDataAreCompressedFurtherThanTheBound) {
  std::string zeros;
  zeros.resize(10'000'000);
  const auto bytes = static_cast<int64_t>(Gzip(zeros, 9).size());
  EXPECT_GT(bytes * GzipReader::kMostBytesPerByte, static_cast<int64_t>(zeros.size()));
  EXPECT_LT(bytes * 900, static_cast<int64_t>(zeros.size()));
}

TEST(GzipReaderTest, KnowsGzipDataByTheirStart) {
  EXPECT_TRUE(IsGzip(Gzip("data")));
  EXPECT_FALSE(IsGzip("\x1f"));
  EXPECT_FALSE(IsGzip(""));
  EXPECT_FALSE(IsGzip(IdxContents({1}, "x")));
}

}  // namespace
}  // namespace tessera
