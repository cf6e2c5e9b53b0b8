// A checkpoint that is saved in any layout, by any number of ranks, is loaded in any other one.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "core/train/state/state_part.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kPadding = -7;

// States whose parts are uneven, empty on some ranks, or empty on all.
const std::vector<StateEntry>& States() {
  static const auto* const states = new std::vector<StateEntry>{
      {"w", "parameter", {DType::kI32, {7, 5}}},
      {"bias", "parameter", {DType::kI32, {1, 3}}},
      {"none", "parameter", {DType::kI32, {0, 4}}},
      {"w.adam_m", "optimizer", {DType::kI32, {7, 5}}},
      {"step", "optimizer", {DType::kI32, {}}},
  };
  return *states;
}

int32_t ValueOf(int state, int64_t element) { return static_cast<int32_t>(1000 * state + element); }

// The layouts of all states on the ranks of a job.
struct JobLayout {
  std::string name;
  Mesh mesh;
  std::vector<PartRule> parts;                   // of each state
  std::vector<std::unique_ptr<FlatRule>> flats;  // of each state; may be null

  StatePart PartOf(int state, int rank) const {
    return PartOnRank(parts[state], flats[state].get(), mesh, mesh.CoordinatesOf(rank));
  }
};

// `flat_axis` splits one group of all tensors; -1: none is flat.
JobLayout MakeJob(const Mesh& mesh, const MeshLayout& layout, int flat_axis = -1) {
  JobLayout job;
  job.name = absl::StrCat(layout.ToString(mesh), " on ", mesh.ToString(),
                          flat_axis < 0 ? "" : absl::StrCat(", flat over axis ", flat_axis));
  job.mesh = mesh;
  std::vector<FlatGroup::Member> members;
  for (const StateEntry& entry : States()) {
    const Shape& shape = entry.type.shape;
    job.parts.push_back({shape, Shape(shape.size(), 0), shape,
                         shape.empty() ? MeshLayout(mesh.num_axes()) : layout});
    EXPECT_TRUE(CheckPart(job.parts.back(), mesh).ok()) << job.name;
    members.push_back({job.parts.back().LocalShape(mesh), 1});
  }
  job.flats.resize(States().size());
  if (flat_axis < 0) return job;
  const auto group =
      std::make_shared<FlatGroup>(*FlatGroup::Create(members, mesh.axis(flat_axis).size));
  for (int i = 0; i < static_cast<int>(members.size()); ++i) {
    job.flats[i] = std::make_unique<FlatRule>(FlatRule{group, {flat_axis}, i});
  }
  return job;
}

std::vector<JobLayout> JobsOf(int ranks) {
  const AxisLayout b = AxisLayout::Broadcast(), rows = AxisLayout::Split(0),
                   columns = AxisLayout::Split(1), pairs = AxisLayout::Split(0, 2);
  std::vector<JobLayout> jobs;
  const Mesh line = *Mesh::Create({{"data", ranks}});
  for (const AxisLayout& axis : {b, rows, columns, pairs}) {
    jobs.push_back(MakeJob(line, MeshLayout({axis})));
  }
  jobs.push_back(MakeJob(line, MeshLayout({b}), 0));
  for (int size = 1; size <= ranks; ++size) {
    if (ranks % size != 0) continue;
    const Mesh mesh = *Mesh::Create({{"data", size}, {"model", ranks / size}});
    jobs.push_back(MakeJob(mesh, MeshLayout({rows, columns})));
    jobs.push_back(MakeJob(mesh, MeshLayout({rows, rows})));
    jobs.push_back(MakeJob(mesh, MeshLayout(2).With(1, rows).With(0, rows)));
    jobs.push_back(MakeJob(mesh, MeshLayout({b, columns})));
    jobs.push_back(MakeJob(mesh, MeshLayout({b, columns}), 0));
    jobs.push_back(MakeJob(mesh, MeshLayout({b, b}), 1));
  }
  return jobs;
}

// Returns a rank's buffer of a state, with padding, computed from the definition of the layout.
std::vector<int32_t> BufferOf(const JobLayout& job, int state, int rank) {
  const PartRule& rule = job.parts[state];
  const MeshCoordinates coordinates = job.mesh.CoordinatesOf(rank);
  const Box box = rule.At(job.mesh, coordinates);
  const Shape padded = rule.LocalShape(job.mesh);
  const Strides strides = RowMajorStrides(padded), of_global = RowMajorStrides(rule.global);
  std::vector<int32_t> buffer;
  for (int64_t i = 0; i < NumElements(padded); ++i) {
    int64_t element = 0;
    bool inside = true;
    for (size_t d = 0; d < padded.size(); ++d) {
      const int64_t index = i / strides[d] % padded[d];
      inside = inside && index < box.extent[d];
      element += (box.start[d] + index) * of_global[d];
    }
    buffer.push_back(inside ? ValueOf(state, element) : kPadding);
  }
  if (job.flats[state] == nullptr) return buffer;
  // Members of flat groups have no padding.
  buffer.erase(std::remove(buffer.begin(), buffer.end(), kPadding), buffer.end());
  const FlatGroup::Range held =
      job.flats[state]->HeldAt(job.mesh, coordinates, NumElements(box.extent));
  return std::vector<int32_t>(buffer.begin() + held.begin, buffer.begin() + held.end);
}

ShardReport WriteRank(const JobLayout& job, int rank, const std::string& folder) {
  std::vector<OwnedShard> shards;
  std::vector<StatePart> parts;
  std::vector<std::vector<int32_t>> buffers;
  for (int i = 0; i < static_cast<int>(States().size()); ++i) {
    StatePart part = job.PartOf(i, rank);
    if (!part.saves) continue;
    shards.push_back({i, part.shard});
    parts.push_back(std::move(part));
    buffers.push_back(BufferOf(job, i, rank));
  }
  WriteOptions options;
  options.chunk_bytes = 16;
  return WriteShards(
      folder, rank, job.mesh.size(), States(), shards,
      [&](int shard, int64_t offset, absl::Span<char> out) {
        const int64_t first = offset / 4, last = first + static_cast<int64_t>(out.size()) / 4;
        const StatePart& part = parts[shard];
        SharedRuns runs(part.shard.Part(first, last), part.buffer);
        while (const std::optional<SharedRun> run = runs.Next()) {
          std::memcpy(&out[4 * run->first], &buffers[shard][run->second], 4 * run->count);
        }
        return absl::OkStatus();
      },
      options);
}

// Saves with a thread for each rank.
void Save(const JobLayout& job, const std::string& run) {
  CheckpointContents contents;
  contents.state = States();
  const auto results =
      comm::RunThreads(job.mesh.size(), [&](int rank, const comm::Exchange& exchange) {
        std::unique_ptr<CheckpointSave> save;
        if (rank == 0) {
          auto begun = CheckpointSave::Begin(run, contents, {});
          if (!begun.ok()) return begun.status();
          save = *std::move(begun);
        }
        auto folders = exchange("folder", rank == 0 ? save->folder() : "");
        if (!folders.ok()) return folders.status();
        auto texts = exchange("report", WriteRank(job, rank, (*folders)[0]).SerializeAsString());
        if (!texts.ok() || rank > 0) return texts.status();
        std::vector<ShardReport> reports(texts->size());
        for (size_t i = 0; i < reports.size(); ++i) {
          EXPECT_TRUE(reports[i].ParseFromString((*texts)[i]));
        }
        return save->Finish(reports).status();
      });
  for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << job.name << status;
}

void ExpectLoads(const Checkpoint& checkpoint, const JobLayout& job, int rank) {
  for (int i = 0; i < static_cast<int>(States().size()); ++i) {
    const StatePart part = job.PartOf(i, rank);
    std::vector<int32_t> read(part.shard.size()), buffer(part.buffer.size(), kPadding);
    const auto bytes = absl::MakeSpan(reinterpret_cast<char*>(read.data()), 4 * read.size());
    const absl::Status status = checkpoint.ReadShard(States()[i].path, part.shard, bytes);
    ASSERT_TRUE(status.ok()) << status;
    SharedRuns runs(part.shard, part.buffer);
    while (const std::optional<SharedRun> run = runs.Next()) {
      std::copy_n(&read[run->first], run->count, &buffer[run->second]);
    }
    ASSERT_EQ(buffer, BufferOf(job, i, rank)) << States()[i].path << " on rank " << rank;
  }
}

TEST(ShardedCheckpointTest, AnyLayoutLoadsAnyCheckpoint) {
  std::vector<JobLayout> jobs;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (JobLayout& job : JobsOf(ranks)) jobs.push_back(std::move(job));
  }
  for (const JobLayout& saved : jobs) {
    SCOPED_TRACE(absl::StrCat("saved as ", saved.name));
    const std::string run = NewFolder("run");
    Save(saved, run);
    ASSERT_FALSE(HasFatalFailure());
    const auto opened = OpenCheckpoint(run);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (const JobLayout& loaded : jobs) {
      SCOPED_TRACE(absl::StrCat("loaded as ", loaded.name));
      for (int rank = 0; rank < loaded.mesh.size(); ++rank) {
        ExpectLoads(*opened->checkpoint, loaded, rank);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
}

// Each rank has its own files. States that all ranks hold are in those of rank 0.
TEST(ShardedCheckpointTest, AFileForEachRankThatHoldsSomething) {
  const Mesh mesh = *Mesh::Create({{"data", 4}});
  const std::string run = NewFolder("run");
  Save(MakeJob(mesh, MeshLayout({AxisLayout::Split(0)})), run);
  const std::string folder = run + "/checkpoints/step_00000000/";
  EXPECT_THAT(
      *ListFolder(folder),
      ::testing::ElementsAre("config.textproto", "manifest.json", "optimizer-rank00000.safetensors",
                             "optimizer-rank00001.safetensors", "optimizer-rank00002.safetensors",
                             "optimizer-rank00003.safetensors", "parameters-rank00000.safetensors",
                             "parameters-rank00001.safetensors", "parameters-rank00002.safetensors",
                             "parameters-rank00003.safetensors", "plan.textproto"));
  // In the form that Python's safetensors reads: one tensor for each shard.
  EXPECT_THAT(ReadFile(folder + "optimizer-rank00003.safetensors"),
              HasSubstr(R"({"w.adam_m[6:7, 0:5]":{"dtype":"I32","shape":[1,5],)"));
  EXPECT_THAT(ReadFile(folder + "manifest.json"), HasSubstr("\"format_version\": 3"));

  const std::string other = NewFolder("other");
  Save(MakeJob(mesh, MeshLayout({AxisLayout::Broadcast()})), other);
  EXPECT_THAT(*ListFolder(other + "/checkpoints/step_00000000"), ::testing::SizeIs(5));
}

}  // namespace
}  // namespace tessera
