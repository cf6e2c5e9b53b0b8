#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "core/ids/id.h"
#include "core/ids/table.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

struct Value {
  std::string name;
};
struct Buffer {};

using ValueId = Id<Value>;
using BufferId = Id<Buffer>;
using Values = Table<ValueId, Value>;

// A mix-up does not compile.
template <typename A, typename B>
concept Comparable = requires(A a, B b) {
  a == b;
};
template <typename A, typename B>
concept Ordered = requires(A a, B b) {
  a < b;
};
template <typename A, typename B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
template <typename Container, typename Index>
concept IndexableBy = requires(Container container, Index index) {
  container[index];
};

static_assert(!std::is_convertible_v<BufferId, ValueId>);
static_assert(!std::is_constructible_v<ValueId, BufferId>);
static_assert(!std::is_assignable_v<ValueId&, BufferId>);
static_assert(Comparable<ValueId, ValueId> && !Comparable<ValueId, BufferId>);
static_assert(Ordered<ValueId, ValueId> && !Ordered<ValueId, BufferId>);
static_assert(Subtractable<ValueId, ValueId> && !Subtractable<ValueId, BufferId>);
static_assert(IndexableBy<Values, ValueId> && !IndexableBy<Values, BufferId>);
static_assert(IndexableBy<const Values, ValueId> && !IndexableBy<const Values, BufferId>);
static_assert(!std::is_convertible_v<Table<BufferId, int>, Table<ValueId, int>>);

// A number becomes an id, and an id a number, only where the code says so.
static_assert(!std::is_convertible_v<int, ValueId> && std::is_constructible_v<ValueId, int>);
static_assert(!std::is_convertible_v<ValueId, int> && !std::is_constructible_v<int, ValueId>);
static_assert(!Comparable<ValueId, int> && !Comparable<ValueId, size_t>);
static_assert(!IndexableBy<Values, int> && !IndexableBy<Values, size_t>);
static_assert(!IndexableBy<std::vector<Value>, ValueId>);

// kNone is an id of every kind, and an int, but no table has it.
static_assert(std::is_convertible_v<NoId, ValueId> && std::is_convertible_v<NoId, int>);
static_assert(Comparable<ValueId, NoId> && Comparable<NoId, ValueId> && Comparable<int, NoId>);

static_assert(sizeof(ValueId) == 4 && std::is_trivially_copyable_v<ValueId>);

TEST(Id, IsNoneUntilItIsSet) {
  EXPECT_EQ(ValueId(), kNone);
  EXPECT_EQ(ValueId(kNone).index(), -1);
  EXPECT_NE(ValueId(0), kNone);
  EXPECT_LT(ValueId(kNone), ValueId(0));
  EXPECT_EQ(kNone, -1);
}

TEST(Id, MovesLikeAnIterator) {
  EXPECT_EQ(ValueId(2) + 3, ValueId(5));
  EXPECT_EQ(ValueId(2) - 1, ValueId(1));
  EXPECT_EQ(ValueId(7) - ValueId(2), 5);
}

TEST(Id, IsHashedAndPrintedAsItsNumber) {
  EXPECT_EQ(absl::HashOf(ValueId(3)), absl::HashOf(ValueId(3)));
  EXPECT_EQ(::testing::PrintToString(ValueId(3)), "3");
  EXPECT_EQ(::testing::PrintToString(ValueId()), "-1");
}

TEST(Table, GivesItsElementsIds) {
  Values values;
  EXPECT_EQ(values.end_id(), ValueId(0));
  const ValueId a = values.push_back({"a"}), b = values.push_back({"b"});
  EXPECT_EQ(values[a].name, "a");
  EXPECT_EQ(values[b].name, "b");
  EXPECT_TRUE(values.contains(b));
  EXPECT_FALSE(values.contains(kNone));
  EXPECT_FALSE(values.contains(values.end_id()));
  EXPECT_EQ(values.IdOf(values.begin() + 1), b);
}

TEST(Table, IdsAreVisitedInOrder) {
  const Table<ValueId, bool> seen = {true, false, true};
  std::vector<ValueId> visited;
  for (const ValueId id : seen.ids()) {
    if (seen[id]) visited.push_back(id);
  }
  EXPECT_EQ(visited, (std::vector<ValueId>{ValueId(0), ValueId(2)}));
}

TEST(Table, ALoopDoesNotVisitWhatItAdds) {
  Table<ValueId, int> numbers = {1, 2};
  for (const ValueId id : numbers.ids()) numbers.push_back(10 * numbers[id]);
  EXPECT_EQ(numbers, (Table<ValueId, int>{1, 2, 10, 20}));
}

}  // namespace
}  // namespace tessera
