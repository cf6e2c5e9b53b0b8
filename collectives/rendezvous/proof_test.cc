#include "collectives/rendezvous/proof.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tessera::comm {
namespace {

TEST(ProofTest, DependsOnAllThatItProves) {
  const ProofInput input = {"secret", "job", "store", "rank", 1, 4};
  std::set<std::string> proofs = {RankProof(input), StoreProof(input)};
  ProofInput other = input;
  other.secret = "secre";
  other.job = "tjob";
  proofs.insert(RankProof(other));
  for (int changed = 0; changed < 6; ++changed) {
    other = input;
    if (changed == 0) other.secret = "";
    if (changed == 1) other.job = "";
    if (changed == 2) other.store_nonce = "x";
    if (changed == 3) other.rank_nonce = "x";
    if (changed == 4) other.rank = 2;
    if (changed == 5) other.size = 5;
    proofs.insert(RankProof(other));
  }
  EXPECT_EQ(proofs.size(), 9);
  for (const std::string& proof : proofs) EXPECT_EQ(proof.size(), 32);
  EXPECT_TRUE(SameProof(RankProof(input), RankProof(input)));
  EXPECT_FALSE(SameProof(RankProof(input), StoreProof(input)));
  EXPECT_FALSE(SameProof(RankProof(input), ""));
}

TEST(ProofTest, SecretsAreLongAndDiffer) {
  EXPECT_EQ(RandomSecret().size(), 32);
  EXPECT_NE(RandomSecret(), RandomSecret());
  EXPECT_EQ(RandomBytes(1000).size(), 1000);
}

TEST(ProofTest, DigestsNameTexts) {
  EXPECT_EQ(DigestOf("").size(), 32);
  EXPECT_EQ(DigestOf("a"), DigestOf("a"));
  EXPECT_NE(DigestOf("a"), DigestOf("b"));
}

}  // namespace
}  // namespace tessera::comm
