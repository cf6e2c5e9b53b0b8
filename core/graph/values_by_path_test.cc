#include "core/graph/values_by_path.h"

#include "core/graph/graph.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::vector<Value> Values(const std::vector<std::string>& paths) {
  std::vector<Value> values(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) values[i].path = paths[i];
  return values;
}

TEST(ValuesByPath, FindsAndErasesPathsWithEqualHashes) {
  for (const ValuesByPath::Hash hash :
       {+[](absl::string_view) { return ~uint64_t{0}; }, +ValuesByPath::DefaultHash}) {
    const std::vector<Value> values = Values({"a", "b", "c", "d"});
    ValuesByPath by_path(hash);
    EXPECT_EQ(by_path.Find("a", values), kNone);
    for (const ValueId id : {0, 1, 2}) EXPECT_TRUE(by_path.Insert(values[id].path, id, values));
    EXPECT_FALSE(by_path.Insert("c", 3, values));
    by_path.Erase("b", values);
    EXPECT_EQ(by_path.Find("a", values), 0);
    EXPECT_EQ(by_path.Find("b", values), kNone);
    EXPECT_EQ(by_path.Find("c", values), 2);
    EXPECT_FALSE(by_path.Insert("c", 3, values));
    EXPECT_TRUE(by_path.Insert("b", 1, values));
    EXPECT_EQ(by_path.Find("b", values), 1);
    EXPECT_EQ(by_path.Find("d", values), kNone);
  }
}

}  // namespace
}  // namespace tessera
