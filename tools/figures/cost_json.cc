#include "tools/figures/cost_json.h"

#include <string>

namespace tessera {

Json CollectivesJson(const StepCost& cost, bool with_times) {
  Json list = Json::array();
  for (const StepCost::Collective& collective : cost.collectives()) {
    Json each;
    each["operation"] = collective.operation();
    each["mesh_axes"] = Json::array();
    for (const std::string& axis : collective.mesh_axes()) each["mesh_axes"].push_back(axis);
    each["calls"] = collective.calls();
    each["bytes"] = collective.bytes();
    if (with_times) {
      each["seconds"] = collective.seconds();
      each["exposed_seconds"] = collective.exposed_seconds();
    }
    list.push_back(std::move(each));
  }
  return list;
}

void SetRates(int64_t batch, const SampleUnit& unit, double step_seconds, Json* json) {
  const double samples = static_cast<double>(batch) / step_seconds;
  (*json)[unit.RateField()] = samples * static_cast<double>(unit.per_row);
  (*json)["samples_per_second"] = samples;
}

Json EstimateJson(const StepCost& cost, int64_t batch, const SampleUnit& unit) {
  Json json;
  json["step_seconds"] = cost.step_seconds();
  SetRates(batch, unit, cost.step_seconds(), &json);
  json["computation_seconds"] = cost.computation_seconds();
  json["measured_seconds"] = cost.measured_seconds();
  json["interpolated_seconds"] = cost.interpolated_seconds();
  json["exposed_seconds"] = cost.exposed_seconds();
  json["peak_bytes"] = cost.peak_bytes();
  for (const StepCost::Memory& memory : cost.memory()) {
    json[memory.on_host() ? "host_memory" : "memory"][memory.category()] = memory.bytes();
  }
  for (const StepCost::HostCopies& copies : cost.host_copies()) {
    json[copies.to_host() ? "copies_to_host" : "copies_from_host"] = {{"calls", copies.calls()},
                                                                      {"bytes", copies.bytes()}};
  }
  json["collectives"] = CollectivesJson(cost, /*with_times=*/true);
  return json;
}

}  // namespace tessera
