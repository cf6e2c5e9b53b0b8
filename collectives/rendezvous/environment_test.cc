#include "collectives/rendezvous/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Variables = std::map<std::string, std::string>;

constexpr char kSecret[] = "0123456789abcdef";  // as short as is accepted

absl::StatusOr<RankEnvironment> Read(const Variables& variables,
                                     const std::string& rendezvous = "") {
  return ReadRankEnvironment(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      rendezvous);
}

RankEnvironment Good(const Variables& variables, const std::string& rendezvous = "") {
  const auto environment = Read(variables, rendezvous);
  EXPECT_TRUE(environment.ok()) << environment.status();
  return environment.ok() ? *environment : RankEnvironment();
}

std::string Error(const Variables& variables, const std::string& rendezvous = "") {
  const auto environment = Read(variables, rendezvous);
  EXPECT_FALSE(environment.ok());
  if (environment.ok()) return "";
  EXPECT_EQ(environment.status().code(), absl::StatusCode::kInvalidArgument);
  std::string message(environment.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

// Returns `variables` with `changes`; an empty value means that the variable is not set.
Variables With(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

void ExpectRank(const RankEnvironment& environment, int rank, int size, int local_rank,
                int local_size) {
  EXPECT_EQ(environment.rank, rank);
  EXPECT_EQ(environment.size, size);
  EXPECT_EQ(environment.local_rank, local_rank);
  EXPECT_EQ(environment.local_size, local_size);
}

TEST(EnvironmentTest, NoLauncher) {
  const RankEnvironment environment = Good({{"HOME", "/root"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(environment.launcher, "none");
  ExpectRank(environment, 0, 1, 0, 1);
  EXPECT_TRUE(environment.one_host);
  EXPECT_FALSE(environment.discovers_locally);
  EXPECT_THAT(Error({}, "node1:29500"), HasSubstr("--rendezvous=node1:29500"));
}

const Variables kLaunch = {{"TESSERA_LAUNCH", "1"},   {"RANK", "1"},
                           {"WORLD_SIZE", "4"},       {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", "12345"},  {"TESSERA_SECRET", kSecret}};

TEST(EnvironmentTest, OurLauncher) {
  const RankEnvironment environment = Good(kLaunch);
  EXPECT_EQ(environment.launcher, "tessera");
  ExpectRank(environment, 1, 4, 1, 4);
  EXPECT_TRUE(environment.one_host);
  EXPECT_EQ(environment.master_host, "127.0.0.1");
  EXPECT_EQ(environment.master_port, 12345);
  EXPECT_EQ(environment.secret, kSecret);
  EXPECT_FALSE(environment.discovers_locally);
  EXPECT_EQ(environment.listen_fd, -1);
  EXPECT_EQ(environment.note, "");
  EXPECT_EQ(Good(With(kLaunch, {{"TESSERA_LISTEN_FD", "7"}})).listen_fd, 7);
}

const Variables kTorchrun = {{"RANK", "9"},
                             {"WORLD_SIZE", "16"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "8"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TESSERA_SECRET", kSecret},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                          {"TESSERA_SECRET", kSecret},
                          {"SLURM_JOB_ID", "1234"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "gpu[01-02]"},
                          {"SLURM_JOB_NODELIST", "cpu1,gpu[01-02]"}};

TEST(EnvironmentTest, TorchrunAcrossHosts) {
  const RankEnvironment environment = Good(kTorchrun);
  EXPECT_EQ(environment.launcher, "torchrun");
  ExpectRank(environment, 9, 16, 1, 8);
  EXPECT_FALSE(environment.one_host);
  EXPECT_EQ(environment.master_host, "node1");
  EXPECT_FALSE(environment.discovers_locally);
  EXPECT_EQ(environment.note, "");
}

TEST(EnvironmentTest, AJobOverSeveralHostsWithoutASecretIsRefusedUnlessAllowed) {
  for (const Variables& job : {kTorchrun, kSlurm}) {
    const Variables no_secret = With(job, {{"TESSERA_SECRET", ""}});
    EXPECT_THAT(Error(no_secret), AllOf(HasSubstr("TESSERA_SECRET is not set"),
                                        HasSubstr("TESSERA_ALLOW_NO_SECRET=1")));
    EXPECT_THAT(Error(With(no_secret, {{"TESSERA_ALLOW_NO_SECRET", "0"}})),
                HasSubstr("TESSERA_SECRET is not set"));
    const RankEnvironment allowed = Good(With(no_secret, {{"TESSERA_ALLOW_NO_SECRET", "1"}}));
    EXPECT_EQ(allowed.secret, "");
    EXPECT_THAT(allowed.note, AllOf(HasSubstr("anyone who reaches"), HasSubstr("accidents only")));
  }
}

// Regression: a secret of any length was taken, and one of 8 characters can be guessed from one
// recorded connection.
TEST(EnvironmentTest, AShortSecretIsRefused) {
  for (const Variables& job : {kLaunch, kTorchrun, kSlurm}) {
    for (const char* secret : {"x!", "emulated", "0123456789abcde"}) {
      EXPECT_THAT(Error(With(job, {{"TESSERA_SECRET", secret}})),
                  AllOf(HasSubstr("TESSERA_SECRET has "), HasSubstr("16 random ones or more"),
                        HasSubstr("openssl rand -hex 16"), Not(HasSubstr(secret))));
    }
    Good(With(job, {{"TESSERA_SECRET", kSecret}}));
  }
  // One rank has nobody to prove it to.
  Good({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TESSERA_SECRET", "s"}});
}

TEST(EnvironmentTest, UnderTorchrunAnotherPortFollowsFromTheAgents) {
  for (const char* port : {"1", "29500", "29501", "32767", "32768", "60999", "65535"}) {
    const int ours = Good(With(kTorchrun, {{"MASTER_PORT", port}})).master_port;
    EXPECT_NE(ours, std::stoi(port));
    EXPECT_GE(ours, 1024);
    EXPECT_LT(ours, 32768);
    EXPECT_EQ(Good(With(kTorchrun, {{"MASTER_PORT", port}, {"RANK", "15"}})).master_port, ours);
  }
  EXPECT_EQ(Good(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).master_port, 29500);
  const RankEnvironment flag = Good(kTorchrun, "node7:4000");
  EXPECT_EQ(flag.master_host, "node7");
  EXPECT_EQ(flag.master_port, 4000);
}

TEST(EnvironmentTest, TorchrunOnOneHostDiscoversLocally) {
  const Variables one_host =
      With(kTorchrun, {{"WORLD_SIZE", "8"}, {"RANK", "1"}, {"TESSERA_SECRET", ""}});
  const RankEnvironment environment = Good(one_host);
  EXPECT_TRUE(environment.one_host);
  EXPECT_EQ(environment.master_host, "127.0.0.1");
  EXPECT_TRUE(environment.discovers_locally);
  EXPECT_NE(environment.job, Good(With(one_host, {{"MASTER_PORT", "29501"}})).job);
  EXPECT_FALSE(Good(With(one_host, {{"TESSERA_SECRET", kSecret}})).discovers_locally);
}

TEST(EnvironmentTest, ByHand) {
  const Variables by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "4000"}};
  const RankEnvironment far =
      Good(With(by_hand, {{"MASTER_ADDR", "10.0.0.1"}, {"TESSERA_SECRET", kSecret}}));
  ExpectRank(far, 1, 2, 0, 1);
  EXPECT_FALSE(far.one_host);
  EXPECT_EQ(far.master_port, 4000);
  for (const char* address : {"127.0.0.1", "localhost", "rank.localhost", "::1"}) {
    const RankEnvironment near = Good(With(by_hand, {{"MASTER_ADDR", address}}));
    ExpectRank(near, 1, 2, 1, 2);
    EXPECT_TRUE(near.one_host);
    EXPECT_TRUE(near.discovers_locally);
  }
  const Variables ranks = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TESSERA_SECRET", kSecret}};
  const RankEnvironment flag = Good(ranks, "node1:4000");
  EXPECT_EQ(flag.master_host, "node1");
  EXPECT_EQ(flag.master_port, 4000);
  EXPECT_EQ(Good(ranks, "[fe80::1]:4000").master_host, "fe80::1");
}

TEST(EnvironmentTest, OneRankNeedsNoPort) {
  const RankEnvironment environment = Good({{"RANK", "0"},
                                            {"WORLD_SIZE", "1"},
                                            {"LOCAL_RANK", "0"},
                                            {"LOCAL_WORLD_SIZE", "1"},
                                            {"MASTER_ADDR", "node1"},
                                            {"MASTER_PORT", "4000"}});
  ExpectRank(environment, 0, 1, 0, 1);
  EXPECT_TRUE(environment.one_host);
  EXPECT_EQ(environment.master_port, 0);
  EXPECT_FALSE(environment.discovers_locally);
}

TEST(EnvironmentTest, ErrorsNameVariableAndValue) {
  EXPECT_THAT(Error(With(kLaunch, {{"RANK", "x"}})), HasSubstr("RANK=x"));
  EXPECT_THAT(Error(With(kLaunch, {{"RANK", "-1"}})), HasSubstr("RANK=-1"));
  EXPECT_THAT(Error(With(kLaunch, {{"RANK", "4"}})), HasSubstr("RANK=4 is not below WORLD_SIZE=4"));
  EXPECT_THAT(Error(With(kLaunch, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(Error(With(kLaunch, {{"WORLD_SIZE", "99999999999"}})),
              HasSubstr("WORLD_SIZE=99999999999"));
  EXPECT_THAT(Error(With(kLaunch, {{"WORLD_SIZE", ""}})),
              HasSubstr("RANK=1 is set and WORLD_SIZE is not"));
  EXPECT_THAT(Error({{"WORLD_SIZE", "2"}}), HasSubstr("WORLD_SIZE=2 is set and RANK is not"));
  EXPECT_THAT(Error(With(kLaunch, {{"LOCAL_RANK", "4"}})),
              HasSubstr("LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4"));
  EXPECT_THAT(Error(With(kLaunch, {{"LOCAL_WORLD_SIZE", "5"}})),
              HasSubstr("LOCAL_WORLD_SIZE=5 is more than WORLD_SIZE=4"));
  EXPECT_THAT(Error(With(kLaunch, {{"LOCAL_RANK", "2"}})),
              HasSubstr("LOCAL_RANK=2 is more than RANK=1"));
  EXPECT_THAT(Error(With(kLaunch, {{"LOCAL_WORLD_SIZE", ""}})),
              HasSubstr("LOCAL_WORLD_SIZE is not set"));
  EXPECT_THAT(Error(With(kLaunch, {{"MASTER_PORT", "65536"}})), HasSubstr("MASTER_PORT=65536"));
  EXPECT_THAT(Error(With(kLaunch, {{"MASTER_PORT", "http"}})), HasSubstr("MASTER_PORT=http"));
  EXPECT_THAT(Error(With(kLaunch, {{"TESSERA_LISTEN_FD", "-3"}})),
              HasSubstr("TESSERA_LISTEN_FD=-3"));
  EXPECT_THAT(Error({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
              AllOf(HasSubstr("--rendezvous=HOST:PORT"), HasSubstr("MASTER_ADDR")));
}

TEST(EnvironmentTest, TheFlag) {
  const Variables ranks = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TESSERA_SECRET", kSecret}};
  for (const char* flag : {"node1", ":4000", "node1:", "node1:0", "node1:65536", "node1:x",
                           "fe80::1:4000", "[]:4000", "node1:4000x"}) {
    EXPECT_THAT(Error(ranks, flag), AllOf(HasSubstr("--rendezvous"), HasSubstr(flag)));
  }
  const Variables address = With(ranks, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4000"}});
  EXPECT_EQ(Good(address, "node1:4000").master_port, 4000);
  EXPECT_THAT(Error(address, "node2:4000"),
              AllOf(HasSubstr("--rendezvous=node2:4000"), HasSubstr("MASTER_ADDR=node1")));
  EXPECT_THAT(Error(address, "node1:4001"), HasSubstr("MASTER_PORT=4000"));
}

TEST(EnvironmentTest, SlurmAcrossHosts) {
  const RankEnvironment environment = Good(kSlurm);
  EXPECT_EQ(environment.launcher, "slurm");
  ExpectRank(environment, 5, 8, 1, 4);
  EXPECT_FALSE(environment.one_host);
  EXPECT_EQ(environment.master_host, "gpu01");
  EXPECT_GE(environment.master_port, 1024);
  EXPECT_LT(environment.master_port, 32768);
  EXPECT_NE(Good(With(kSlurm, {{"SLURM_JOB_ID", "1235"}})).master_port, environment.master_port);
  EXPECT_NE(Good(With(kSlurm, {{"SLURM_STEP_ID", "1"}})).master_port, environment.master_port);
  EXPECT_EQ(Good(With(kSlurm, {{"SLURM_STEP_NODELIST", ""}})).master_host, "cpu1");
}

TEST(EnvironmentTest, SlurmOnOneHostDiscoversLocally) {
  const Variables one_host = With(kSlurm, {{"SLURM_PROCID", "1"},
                                           {"SLURM_NTASKS", "4"},
                                           {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                           {"TESSERA_SECRET", ""},
                                           {"SLURM_NODEID", "0"}});
  const RankEnvironment environment = Good(one_host);
  ExpectRank(environment, 1, 4, 1, 4);
  EXPECT_TRUE(environment.one_host);
  EXPECT_TRUE(environment.discovers_locally);
  EXPECT_EQ(environment.master_host, "127.0.0.1");
  EXPECT_EQ(
      Good(With(one_host, {{"SLURM_STEP_TASKS_PER_NODE", ""}, {"SLURM_NTASKS_PER_NODE", "4"}}))
          .local_size,
      4);
}

TEST(EnvironmentTest, SlurmWithAnAddress) {
  const RankEnvironment variables =
      Good(With(kSlurm, {{"MASTER_ADDR", "gpu01-ib"}, {"MASTER_PORT", "4000"}}));
  EXPECT_EQ(variables.master_host, "gpu01-ib");
  EXPECT_EQ(variables.master_port, 4000);
  EXPECT_EQ(Good(With(kSlurm, {{"MASTER_PORT", "4000"}})).master_host, "gpu01");
  EXPECT_EQ(Good(kSlurm, "gpu02:4000").master_host, "gpu02");
}

TEST(EnvironmentTest, SlurmsBatchScriptIsNotATask) {
  const Variables batch = With(kSlurm, {{"SLURM_PROCID", "0"},
                                        {"SLURM_STEP_ID", ""},
                                        {"SLURM_STEP_NODELIST", ""},
                                        {"ENVIRONMENT", "BATCH"}});
  EXPECT_EQ(Good(batch).launcher, "none");
  for (const char* step : {"4294967291", "4294967290", "-5"}) {
    EXPECT_EQ(Good(With(kSlurm, {{"SLURM_STEP_ID", step}})).launcher, "none") << step;
  }
  Variables allocation = kSlurm;
  allocation.erase("SLURM_PROCID");
  EXPECT_EQ(Good(allocation).launcher, "none");
}

TEST(EnvironmentTest, SlurmsErrors) {
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_PROCID", "8"}})),
              HasSubstr("SLURM_PROCID=8 is not below SLURM_NTASKS=8"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_NTASKS", ""}})), HasSubstr("SLURM_NTASKS"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_LOCALID", ""}})), HasSubstr("SLURM_LOCALID"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_LOCALID", "4"}})), HasSubstr("SLURM_LOCALID=4"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_JOB_ID", "x"}})), HasSubstr("SLURM_JOB_ID=x"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_STEP_NODELIST", "gpu["}})),
              AllOf(HasSubstr("SLURM_STEP_NODELIST"), HasSubstr("gpu[")));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4("}})),
              AllOf(HasSubstr("SLURM_STEP_TASKS_PER_NODE"), HasSubstr("4(")));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "9(x2)"}})),
              HasSubstr("9 tasks on node 1"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_NODEID", "2"}})), HasSubstr("no node 2"));
  EXPECT_THAT(Error(With(kSlurm, {{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", ""}})),
              HasSubstr("--rendezvous=HOST:PORT"));
}

const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "1234567"},       {"SLURM_PROCID", "0"}};

TEST(EnvironmentTest, OpenMpiOnOneHost) {
  const RankEnvironment environment = Good(kOpenMpi);
  EXPECT_EQ(environment.launcher, "open mpi");
  ExpectRank(environment, 1, 2, 1, 2);
  EXPECT_TRUE(environment.one_host);
  EXPECT_TRUE(environment.discovers_locally);
  EXPECT_EQ(environment.master_port, 0);
  EXPECT_THAT(environment.job, HasSubstr("1234567"));
  EXPECT_THAT(Good(With(kOpenMpi, {{"PMIX_NAMESPACE", ""}, {"OMPI_MCA_ess_base_jobid", "7"}})).job,
              HasSubstr("7"));
  // A secret alone does not determine the port.
  EXPECT_TRUE(Good(With(kOpenMpi, {{"TESSERA_SECRET", kSecret}})).discovers_locally);
  EXPECT_FALSE(
      Good(With(kOpenMpi, {{"TESSERA_SECRET", kSecret}}), "localhost:4000").discovers_locally);
  EXPECT_THAT(Error(With(kOpenMpi, {{"PMIX_NAMESPACE", ""}})), HasSubstr("PMIX_NAMESPACE"));
}

TEST(EnvironmentTest, OpenMpiAcrossHosts) {
  const Variables hosts =
      With(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"TESSERA_SECRET", kSecret}});
  EXPECT_THAT(Error(hosts), AllOf(HasSubstr("rank 1 of 4, started by open mpi"),
                                  HasSubstr("--rendezvous=HOST:PORT")));
  EXPECT_EQ(Good(hosts, "node1:4000").master_host, "node1");
  EXPECT_EQ(Good(With(hosts, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4000"}})).master_port,
            4000);
  EXPECT_THAT(Error(With(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "2"}})),
              HasSubstr("OMPI_COMM_WORLD_RANK=2"));
  EXPECT_THAT(Error(With(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "x"}})),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE=x"));
}

}  // namespace
}  // namespace tessera::comm
