#include "collectives/rendezvous/frame_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> TakeAll(FrameReader& reader) {
  std::vector<std::string> messages;
  std::string message;
  while (*reader.Next(&message)) messages.push_back(message);
  return messages;
}

TEST(FrameReaderTest, CompleteMessagesHoweverBytesArrive) {
  const std::string stream = MakeFrame("one") + MakeFrame("") + MakeFrame(std::string(300, 'x'));
  for (size_t piece : {1, 2, 3, 4, 5, 7, 100, 1000}) {
    FrameReader reader(/*max_bytes=*/300);
    std::vector<std::string> messages;
    for (size_t begin = 0; begin < stream.size(); begin += piece) {
      const std::string bytes = stream.substr(begin, piece);
      reader.Feed(bytes);
      for (const std::string& message : TakeAll(reader)) messages.push_back(message);
    }
    EXPECT_THAT(messages, ElementsAre("one", "", std::string(300, 'x'))) << piece;
    EXPECT_EQ(reader.buffered_bytes(), 0);
  }
}

TEST(FrameReaderTest, ALengthIsLittleEndian) {
  EXPECT_EQ(MakeFrame(std::string(258, 'x')).substr(0, 4), std::string("\x02\x01\0\0", 4));
}

TEST(FrameReaderTest, TooLongAMessageIsRefusedBeforeItComes) {
  FrameReader reader(/*max_bytes=*/10);
  reader.Feed(std::string("\x0b"));
  std::string message;
  EXPECT_FALSE(*reader.Next(&message));
  reader.Feed(std::string(3, '\0'));
  const auto refused = reader.Next(&message);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("11 bytes"));
}

TEST(FrameReaderTest, AnAnnouncedLengthAllocatesNothing) {
  FrameReader reader(/*max_bytes=*/int64_t{1} << 40);
  reader.Feed(std::string("\xff\xff\xff\xff") + "abc");
  std::string message;
  EXPECT_FALSE(*reader.Next(&message));
  EXPECT_EQ(reader.buffered_bytes(), 7);
}

}  // namespace
}  // namespace tessera::comm
