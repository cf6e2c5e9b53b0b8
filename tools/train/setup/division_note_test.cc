#include "tools/train/setup/division_note.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

std::string Note(const WorkDivision& division, int batch, int micro_batches = 1) {
  RunConfig config;
  config.set_batch(batch);
  config.set_micro_batches(micro_batches);
  return DivisionNote(division, *Mesh::Create({{"data", 4}, {"model", 2}}), config);
}

TEST(DivisionNoteTest, NothingIsSaidOfRanksThatAreOfUse) {
  EXPECT_EQ(Note({.speedup = 8, .repeated = {0, 0}}, 8), "");
  EXPECT_EQ(Note({.speedup = 6.1, .repeated = {0, 0.2}}, 8), "");
}

// Regression: the note was for runs on ranks only, and one of a single rank lost its exception.
TEST(DivisionNoteTest, NothingIsSaidOfOneRank) {
  EXPECT_EQ(DivisionNote({.speedup = 0.5, .repeated = {}}, Mesh(), RunConfig()), "");
}

TEST(DivisionNoteTest, MoreRanksThanRows) {
  EXPECT_EQ(Note({.speedup = 3.96, .repeated = {0, 0}, .rows = 2, .parts = 4}, 2),
            "the batch has 2 rows for 4 ranks, and 2 of them have nothing to compute: a step on 8 "
            "ranks is no faster than on 4; --batch=4 gives each a row");
  EXPECT_EQ(Note({.speedup = 2, .repeated = {0, 0}, .rows = 1, .parts = 4}, 8, 8),
            "a micro-batch has 1 row for 4 ranks, and 3 of them have nothing to compute: a step on "
            "8 ranks is no faster than on 2; --micro_batches=2 gives each a row");
  EXPECT_EQ(Note({.speedup = 2, .repeated = {0, 0}, .rows = 1, .parts = 4}, 2, 2),
            "a micro-batch has 1 row for 4 ranks, and 3 of them have nothing to compute: a step on "
            "8 ranks is no faster than on 2; --batch=8 gives each a row");
}

TEST(DivisionNoteTest, RanksThatRepeatEachOthersWork) {
  EXPECT_EQ(Note({.speedup = 4.04, .repeated = {0, 0.98}}, 8),
            "the 2 ranks along 'model' repeat 98% of each other's work: a step on 8 ranks is no "
            "faster than on 4; split the batch or operators along it (docs/plans.md)");
  EXPECT_EQ(Note({.speedup = 4.5, .repeated = {0, 0.05}}, 9),
            "the batch, or another dimension that is split, does not divide evenly among the "
            "ranks: a step on 8 ranks is no faster than on 4.5; choose sizes that do");
}

}  // namespace
}  // namespace tessera
