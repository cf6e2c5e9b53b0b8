#include "collectives/net/proof.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tessera::comm {
namespace {

TEST(ProofTest, DependsOnAllThatItProves) {
  const ProofInput input = {"secret", "job", "service", "acceptor", "connector", 1, 4};
  std::set<std::string> proofs = {ConnectorProof(input), AcceptorProof(input)};
  ProofInput other = input;
  other.secret = "secre";
  other.job = "tjob";
  proofs.insert(ConnectorProof(other));
  for (int changed = 0; changed < 7; ++changed) {
    other = input;
    if (changed == 0) other.secret = "";
    if (changed == 1) other.job = "";
    if (changed == 2) other.service = "x";
    if (changed == 3) other.acceptor_nonce = "x";
    if (changed == 4) other.connector_nonce = "x";
    if (changed == 5) other.rank = 2;
    if (changed == 6) other.size = 5;
    proofs.insert(ConnectorProof(other));
  }
  EXPECT_EQ(proofs.size(), 10);
  for (const std::string& proof : proofs) EXPECT_EQ(proof.size(), kProofBytes);
  EXPECT_TRUE(SameProof(ConnectorProof(input), ConnectorProof(input)));
  EXPECT_FALSE(SameProof(ConnectorProof(input), AcceptorProof(input)));
  EXPECT_FALSE(SameProof(ConnectorProof(input), ""));
}

TEST(ProofTest, KeysDependOnAllThatAProofDependsOn) {
  const ProofInput input = {"secret", "job", "service", "acceptor", "connector", 1, 4};
  std::set<std::string> keys;
  for (int changed = 0; changed < 8; ++changed) {
    ProofInput other = input;
    if (changed == 1) other.secret = "";
    if (changed == 2) other.job = "";
    if (changed == 3) other.service = "x";
    if (changed == 4) other.acceptor_nonce = "x";
    if (changed == 5) other.connector_nonce = "x";
    if (changed == 6) other.rank = 2;
    if (changed == 7) other.size = 5;
    keys.insert(AcceptorKey(other));
    keys.insert(ConnectorKey(other));
    EXPECT_EQ(AcceptorKey(other), AcceptorKey(other));
    // A proof is sent, so it must say nothing about a key.
    EXPECT_NE(AcceptorProof(other).substr(0, kSessionKeyBytes), AcceptorKey(other));
    EXPECT_NE(ConnectorProof(other).substr(0, kSessionKeyBytes), ConnectorKey(other));
  }
  EXPECT_EQ(keys.size(), 16);
  for (const std::string& key : keys) EXPECT_EQ(key.size(), kSessionKeyBytes);
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
