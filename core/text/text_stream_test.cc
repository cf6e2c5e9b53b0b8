#include "core/text/text_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

// Returns the text of bytes that are added one by one.
std::string Shown(const std::string& bytes) {
  TextStream stream;
  std::string shown;
  for (char byte : bytes) shown += stream.Add(absl::string_view(&byte, 1));
  return shown + stream.Finish();
}

TEST(TextStreamTest, TextStaysAsItIs) {
  const std::string text = "a\tb\n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80.";
  EXPECT_EQ(Shown(text), text);
}

TEST(TextStreamTest, ACharacterIsShownWhenItIsWhole) {
  TextStream stream;
  EXPECT_EQ(stream.Add("a\xE2"), "a");
  EXPECT_EQ(stream.Add("\x82"), "");
  EXPECT_EQ(stream.Add("\xAC"), "\xE2\x82\xAC");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(TextStreamTest, WhatIsNoTextIsReplaced) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(Shown("a\xFF"
                  "b"),
            "a" + bad + "b");
  EXPECT_EQ(Shown("\xC3("), bad + "(") << "a start with nothing behind it";
  EXPECT_EQ(Shown("\xE2\x82"), bad) << "an end in a character's middle";
  EXPECT_EQ(Shown("\xC0\x80"), bad + bad) << "longer than it need be";
  EXPECT_EQ(Shown("\xED\xA0\x80"), bad + bad + bad) << "a surrogate";
}

TEST(TextStreamTest, ATerminalIsNotCommanded) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(Shown("\x1b[2J\r"), bad + "[2J" + bad);
  EXPECT_EQ(Shown("\xC2\x9B"
                  "2J"),
            bad + "2J");
}

TEST(PrintableTest, IsWhatAStreamReturnsForAllOfTheBytes) {
  EXPECT_EQ(Printable("a\tb\n"), "a\tb\n");
  EXPECT_EQ(Printable("\x1b]0;title\x07 \xE2\x82"),
            "\xEF\xBF\xBD]0;title\xEF\xBF\xBD \xEF\xBF\xBD");
}

}  // namespace
}  // namespace tessera
