#include "core/text/nearest_name.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(NearestName, FindsAMisspeltName) {
  EXPECT_EQ(NearestName("lyers", {"heads", "layers"}), "layers");
  EXPECT_EQ(NearestName("layers", {"model.heads", "model.layers"}), "model.layers");
  EXPECT_EQ(NearestName("colour", {"heads", "layers"}), "");
  EXPECT_EQ(DidYouMean("lyers", {"layers"}), "; did you mean 'layers'?");
  EXPECT_EQ(DidYouMean("colour", {"layers"}), "");
}

TEST(NearestName, ANameWithMoreWordsThanTheCandidate) {
  EXPECT_EQ(NearestName("unit_mb", {"units", "unit", "pattern"}), "unit");
  EXPECT_EQ(NearestName("unitary", {"unit"}), "");
}

// Regression test: "abce" suggested "bbe", as two letters that changed places were two edits.
TEST(NearestName, TransposedLettersAreOneEdit) {
  EXPECT_EQ(NearestName("abce", {"bbe", "acbe"}), "acbe");
  EXPECT_EQ(NearestName("ebb", {"bbe"}), "");
  EXPECT_EQ(NearestName("beb", {"bb", "bbe"}), "bb") << "the first of two that are equally near";
}

// Regression test: a name of a megabyte in a Plan was compared letter by letter with every path.
TEST(NearestName, NothingIsNearAVeryLongName) {
  const std::string name(200, 'a');
  EXPECT_EQ(NearestName(name, {name + "b"}), "");
  EXPECT_EQ(NearestName(std::string(64 << 20, 'a'), {"layers"}), "");
}

}  // namespace
}  // namespace tessera
