#include "collectives/rendezvous/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

TEST(SlurmTest, FirstHost) {
  EXPECT_EQ(*FirstSlurmHost("gpu[01-03,7],login"), "gpu01");
  EXPECT_EQ(*FirstSlurmHost("login,gpu[01-03]"), "login");
  EXPECT_EQ(*FirstSlurmHost("node-7.cluster_a"), "node-7.cluster_a");
  EXPECT_EQ(*FirstSlurmHost("gpu[7]"), "gpu7");
  EXPECT_EQ(*FirstSlurmHost("gpu[9,1-3]"), "gpu9");
  EXPECT_EQ(*FirstSlurmHost("rack[0-3]node[001-100]-ib"), "rack0node001-ib");
}

TEST(SlurmTest, MalformedNodeLists) {
  for (const char* list : {"", ",", ",a", "gpu[", "gpu[]", "gpu[,1]", "gpu[-1]", "gpu[a-b]",
                           "gpu[01-03", "a b", "a;b", "gpu]"}) {
    const auto host = FirstSlurmHost(list);
    ASSERT_FALSE(host.ok()) << list << " gave " << *host;
    EXPECT_THAT(host.status().message(), HasSubstr(absl::StrCat("'", list, "' is not in Slurm's")));
  }
}

TEST(SlurmTest, TasksOfNode) {
  EXPECT_EQ(*SlurmTasksOfNode("2", 0), 2);
  EXPECT_EQ(*SlurmTasksOfNode("4(x3),2", 0), 4);
  EXPECT_EQ(*SlurmTasksOfNode("4(x3),2", 2), 4);
  EXPECT_EQ(*SlurmTasksOfNode("4(x3),2", 3), 2);
  EXPECT_EQ(*SlurmTasksOfNode("1,2,3", 1), 2);
  EXPECT_EQ(*SlurmTasksOfNode("2(x1000000000),1", 999'999'999), 2);
}

TEST(SlurmTest, MalformedTasks) {
  for (const char* text : {"", "x", "4(x3", "4(3)", "4x3", "-1", "4(x-3)", "4(x)", "4,",
                           "99999999999999999999", "1(x99999999999999999999)"}) {
    EXPECT_FALSE(SlurmTasksOfNode(text, 5).ok()) << text;
  }
  EXPECT_THAT(SlurmTasksOfNode("4(x3),2", 4).status().message(), HasSubstr("has no node 4"));
}

}  // namespace
}  // namespace tessera::comm
