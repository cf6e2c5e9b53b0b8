#include "core/train/measure/collective_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/cost/median.h"
#include "core/cost/request_traffic.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMessage = std::numeric_limits<size_t>::max();

// Computation is looked away from, to see whether an operation has ended, this often.
constexpr double kLook = 20e-6;
// An operation that has not ended beside computation after so long does not advance there. (Those
// of a few bytes advance when they are waited for, or when a larger one follows.)
constexpr double kLongest = 0.01;  // seconds, added to kLongestFactor times those alone
constexpr double kLongestFactor = 8;
// How often an operation runs beside computation: short ones vary more.
constexpr double kBesideSeconds = 0.02;
constexpr int64_t kMostBeside = 7;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The measurement of one rank, and where it belongs.
struct RankCurvePoint {
  std::string name;
  int64_t bytes = 0;
  CollectiveTimes times;
};

std::string ToText(const std::vector<RankCurvePoint>& points) {
  std::string text;
  for (const RankCurvePoint& point : points) {
    absl::StrAppend(&text, point.name, "\t", point.bytes, "\t", point.times.alone, "\t",
                    point.times.beside, "\t", point.times.taken, "\n");
  }
  return text;
}

absl::StatusOr<std::vector<RankCurvePoint>> FromText(const std::string& text) {
  std::vector<RankCurvePoint> points;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    RankCurvePoint point;
    if (fields.size() != 5 || !absl::SimpleAtoi(fields[1], &point.bytes) ||
        !absl::SimpleAtod(fields[2], &point.times.alone) ||
        !absl::SimpleAtod(fields[3], &point.times.beside) ||
        !absl::SimpleAtod(fields[4], &point.times.taken)) {
      return absl::InternalError("a rank has sent malformed times of collectives");
    }
    point.name = fields[0];
    points.push_back(std::move(point));
  }
  return points;
}

// Returns the group of a rank in which a request runs, in a job.
GroupSite SiteOf(const CollectiveRequest& request, int rank, const Mesh& mesh,
                 const GroupSite& job) {
  GroupSite site = {job.backend, {}};
  for (const std::vector<int>& ranks : mesh.GroupsAlong(AxesOf(request, mesh))) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
    std::map<int, int> numbers;
    for (const int member : ranks) {
      const int next = static_cast<int>(numbers.size());
      site.host_of.push_back(numbers.try_emplace(job.host_of[member], next).first->second);
    }
  }
  return site;
}

}  // namespace

CollectiveTimer::CollectiveTimer(SwitchableCollectives* collectives, Ranks* ranks, int threads)
    : collectives_(*collectives), ranks_(*ranks), loop_(threads) {}

void CollectiveTimer::FindDistinct() {
  const auto& recorded = collectives_.recorded();
  if (distinct_of_.size() == recorded.size()) return;
  distinct_.clear();
  distinct_of_.clear();
  for (const SwitchableCollectives::Call& call : recorded) {
    if (!EndsByItself(call.request->operation)) {
      distinct_of_.push_back(kMessage);
      continue;
    }
    const auto same = std::find_if(distinct_.begin(), distinct_.end(), [&](const Distinct& known) {
      return known.call.group == call.group && *known.call.request == *call.request;
    });
    distinct_of_.push_back(static_cast<size_t>(same - distinct_.begin()));
    if (same == distinct_.end()) distinct_.push_back({call, {}, {}, {}});
  }
}

absl::Status CollectiveTimer::RunAll() {
  for (const SwitchableCollectives::Call& call : collectives_.recorded()) {
    RETURN_IF_ERROR(collectives_.Wait(collectives_.Start(call)));
  }
  return absl::OkStatus();
}

void CollectiveTimer::AddInPlace(const std::vector<int64_t>& nanoseconds) {
  FindDistinct();
  if (nanoseconds.size() != distinct_of_.size()) return;  // it was no whole step
  std::vector<double> sums(distinct_.size(), 0);
  std::vector<int64_t> calls(distinct_.size(), 0);
  for (size_t i = 0; i < nanoseconds.size(); ++i) {
    if (distinct_of_[i] == kMessage) continue;
    sums[distinct_of_[i]] += 1e-9 * static_cast<double>(nanoseconds[i]);
    ++calls[distinct_of_[i]];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    distinct_[i].alone.push_back(sums[i] / static_cast<double>(calls[i]));
  }
}

absl::StatusOr<double> CollectiveTimer::SecondsOfPass() {
  const int64_t passes = loop_.PassesFor(2e-3);
  RETURN_IF_ERROR(ranks_.Barrier());
  const Clock::time_point begin = Clock::now();
  loop_.Run(passes);
  return SecondsSince(begin) / static_cast<double>(passes);
}

absl::Status CollectiveTimer::TimeBeside() {
  FindDistinct();
  ASSIGN_OR_RETURN(seconds_of_pass_, SecondsOfPass());
  for (Distinct& distinct : distinct_) {
    // All ranks must run it equally often.
    int64_t nanoseconds = std::llround(1e9 * MedianOf(distinct.alone));
    RETURN_IF_ERROR(ranks_.Max(absl::MakeSpan(&nanoseconds, 1)));
    const auto fit = static_cast<int64_t>(kBesideSeconds * 1e9) / std::max<int64_t>(nanoseconds, 1);
    const int64_t times = std::clamp<int64_t>(fit, 1, kMostBeside);
    for (int64_t i = 0; i < times; ++i) {
      RETURN_IF_ERROR(TimeBeside(distinct, 1e-9 * static_cast<double>(nanoseconds)));
    }
  }
  return absl::OkStatus();
}

absl::Status CollectiveTimer::TimeBeside(Distinct& distinct, double alone) {
  const double longest = kLongest + kLongestFactor * alone;
  const int64_t passes_of_look =
      std::max<int64_t>(1, static_cast<int64_t>(kLook / seconds_of_pass_));
  RETURN_IF_ERROR(ranks_.Barrier());
  int64_t passes = 0;
  const Clock::time_point begin = Clock::now();
  const StartedCollective started = collectives_.Start(distinct.call);
  double took = 0;
  while (!collectives_.HasEnded(started) && took < longest) {
    loop_.Run(passes_of_look);
    passes += passes_of_look;
    took = SecondsSince(begin);
  }
  RETURN_IF_ERROR(collectives_.Wait(started));
  if (took >= longest) {
    distinct.beside.push_back(alone);
    distinct.taken.push_back(0);
    return absl::OkStatus();
  }
  took = SecondsSince(begin);
  distinct.beside.push_back(took);
  distinct.taken.push_back(std::max(0.0, took - static_cast<double>(passes) * seconds_of_pass_));
  return absl::OkStatus();
}

absl::StatusOr<CollectiveCurves> CollectiveTimer::TakeCurves(const Mesh& mesh, const GroupSite& job,
                                                             const CurveRanks& ranks) {
  std::vector<RankCurvePoint> mine;
  for (const Distinct& distinct : distinct_) {
    if (distinct.alone.empty() || distinct.beside.empty()) continue;
    const CollectiveRequest& request = *distinct.call.request;
    CollectiveTimes times;
    times.alone = MedianOf(distinct.alone);
    times.beside = std::max(times.alone, MedianOf(distinct.beside));
    times.taken = MedianOf(distinct.taken);
    mine.push_back({CurveName(request.operation, request.dtype, request.reduction,
                              SiteOf(request, ranks_.rank(), mesh, job), ranks),
                    request.elements * SizeOf(request.dtype), times});
  }
  distinct_.clear();
  distinct_of_.clear();
  ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(ToText(mine)));
  struct Sum {
    CollectiveTimes times;
    int ranks = 0;
  };
  std::map<std::pair<std::string, int64_t>, Sum> sums;  // by name and bytes
  for (const std::string& text : all) {
    ASSIGN_OR_RETURN(const std::vector<RankCurvePoint> points, FromText(text));
    for (const RankCurvePoint& point : points) {
      Sum& sum = sums[{point.name, point.bytes}];
      sum.times.alone += point.times.alone;
      sum.times.beside += point.times.beside;
      sum.times.taken += point.times.taken;
      ++sum.ranks;
    }
  }
  CollectiveCurves curves;
  for (const auto& [key, sum] : sums) {
    curves.Add(
        key.first, key.second,
        {sum.times.alone / sum.ranks, sum.times.beside / sum.ranks, sum.times.taken / sum.ranks});
  }
  return curves;
}

}  // namespace tessera
