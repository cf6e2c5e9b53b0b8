#include "core/graph/values_by_path.h"

#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

Table<ValueId, Value> Values(const std::vector<std::string>& paths) {
  Table<ValueId, Value> values;
  for (const std::string& path : paths) values.emplace_back().path = path;
  return values;
}

TEST(ValuesByPath, FindsAndErasesPathsWithEqualHashes) {
  for (const ValuesByPath::Hash hash :
       {+[](absl::string_view) { return ~uint64_t{0}; }, +ValuesByPath::DefaultHash}) {
    const Table<ValueId, Value> values = Values({"a", "b", "c", "d"});
    ValuesByPath by_path(hash);
    EXPECT_EQ(by_path.Find("a", values), kNone);
    for (const ValueId id : {ValueId(0), ValueId(1), ValueId(2)}) {
      EXPECT_TRUE(by_path.Insert(values[id].path, id, values));
    }
    EXPECT_FALSE(by_path.Insert("c", ValueId(3), values));
    by_path.Erase("b", values);
    EXPECT_EQ(by_path.Find("a", values), ValueId(0));
    EXPECT_EQ(by_path.Find("b", values), kNone);
    EXPECT_EQ(by_path.Find("c", values), ValueId(2));
    EXPECT_FALSE(by_path.Insert("c", ValueId(3), values));
    EXPECT_TRUE(by_path.Insert("b", ValueId(1), values));
    EXPECT_EQ(by_path.Find("b", values), ValueId(1));
    EXPECT_EQ(by_path.Find("d", values), kNone);
  }
}

}  // namespace
}  // namespace tessera
