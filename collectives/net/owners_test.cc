#include "collectives/net/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/net/socket.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(OwnersTest, AUserHasANumberAndAName) {
  EXPECT_EQ(FormatUser(0), "user 0 (root)");
  EXPECT_EQ(FormatUser(4000000001), "user 4000000001");
}

TEST(OwnersTest, TheProcessThatListensIsNamed) {
  const FileDescriptor loopback = *ListenOn(Reach::kLoopback, 0);
  const FileDescriptor any = *ListenOn(Reach::kAnyHost, 0);
  for (const FileDescriptor* listener : {&loopback, &any}) {
    const std::string text = FormatListener(SocketAddress::Loopback(*PortOf(*listener)));
    EXPECT_THAT(text, AllOf(StartsWith(absl::StrCat("process ", getpid(), " (")),
                            HasSubstr(absl::StrCat(" of ", FormatUser(getuid()))),
                            EndsWith(" listens there")));
  }
}

TEST(OwnersTest, AnotherAddressIsNotMistaken) {
  const FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  EXPECT_EQ(FormatListener(*SocketAddress::Parse("127.0.0.2", port)), "");
  EXPECT_EQ(FormatListener(*SocketAddress::Parse("192.0.2.1", port)), "");  // of no host
}

TEST(OwnersTest, NobodyListens) {
  FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  listener.Close();
  EXPECT_EQ(FormatListener(SocketAddress::Loopback(port)), "");
}

}  // namespace
}  // namespace tessera::comm
