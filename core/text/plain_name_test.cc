#include "core/text/plain_name.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(PlainNameTest, NamesBeginWithALetter) {
  for (const char* name : {"a", "just_enough", "a1", "z_", "plan_file"}) {
    EXPECT_TRUE(IsPlainName(name)) << name;
  }
  for (const char* text : {"", "_a", "1a", "A", "aB", "a-b", "a b", "a.so", "./a", "/a", "a/b",
                           "..", "~", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(IsPlainName(text)) << text;
  }
  EXPECT_FALSE(IsPlainName(std::string("a\0b", 3)));
  EXPECT_TRUE(IsPlainName(std::string(kMaxPlainNameBytes, 'a')));
  EXPECT_FALSE(IsPlainName(std::string(kMaxPlainNameBytes + 1, 'a')));
}

}  // namespace
}  // namespace tessera
