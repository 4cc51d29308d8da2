#include "runtime/dump/dump_json.h"

namespace moxie {
namespace {

/// The figures that are plain numbers, by name.
template <class Counts, class Visit>
void visit_counts(Counts& counts, Visit&& visit) {
  visit("f32_ops", counts.f32_ops);
  visit("f64_ops", counts.f64_ops);
  visit("fused_multiplications", counts.fused);
  visit("special_ops", counts.special_ops);
  visit("integer_ops", counts.integer_ops);
  visit("bytes_read", counts.bytes_read);
  visit("bytes_written", counts.bytes_written);
}

template <class Resources, class Visit>
void visit_resources(Resources& resources, Visit&& visit) {
  visit("registers", resources.registers);
  visit("shared_bytes", resources.shared_bytes);
  visit("stack_bytes", resources.stack_bytes);
  visit("spill_store_bytes", resources.spill_store_bytes);
  visit("spill_load_bytes", resources.spill_load_bytes);
}

}  // namespace

Json lines_to_json(const LineTable& lines) {
  Json list = Json::array();
  for (const std::vector<int>& origins : lines) {
    if (origins.size() == 1)
      list.push_back(origins[0]);
    else if (origins.empty())
      list.push_back(0);
    else
      list.push_back(origins);
  }
  return list;
}

Json head_to_json(const Dump& dump) {
  Json json;
  json["name"] = dump.name;
  json["dims"] = Json::object();
  for (const auto& [name, value] : dump.dims) json["dims"][name] = value;
  json["assumed_dims"] = dump.assumed;
  json["gpu"] = dump.gpu;
  json["gpu_is_assumed"] = dump.gpu_is_assumed;
  return json;
}

Dump head_from_json(const Json& json) {
  Dump dump;
  dump.name = json.at("name");
  for (const auto& [name, value] : json.at("dims").items()) dump.dims[name] = value;
  dump.assumed = json.at("assumed_dims").get<std::vector<std::string>>();
  dump.gpu = json.at("gpu");
  dump.gpu_is_assumed = json.value("gpu_is_assumed", true);
  return dump;
}

Json stage_to_json(const StageText& text) {
  Json json;
  json["stage"] = text.stage;
  json["title"] = text.title;
  json["extension"] = text.extension;
  if (!text.missing.empty()) json["missing"] = text.missing;
  if (!text.origin.empty()) json["origin"] = text.origin;
  if (!text.lines.empty()) json["lines"] = lines_to_json(text.lines);
  return json;
}

StageText stage_from_json(const Json& json) {
  StageText text{json.at("stage"), json.at("title"), json.at("extension")};
  text.missing = json.value("missing", "");
  text.origin = json.value("origin", "");
  for (const Json& line : json.value("lines", Json::array())) {
    if (line.is_array())
      text.lines.push_back(line.get<std::vector<int>>());
    else
      text.lines.push_back(line == 0 ? std::vector<int>{} : std::vector<int>{line.get<int>()});
  }
  return text;
}

Json figures_to_json(const KernelFigures& figures) {
  Json json;
  visit_resources(figures.resources ? *figures.resources : cuda::KernelResources{},
                  [&](const char* name, const std::int64_t& value) {
                    json[name] = figures.resources ? Json(value) : Json(nullptr);
                  });
  if (!figures.resources) json["no_resources"] = figures.no_resources;
  json["block_threads"] = figures.block_threads;
  json["blocks_per_multiprocessor"] = figures.occupancy ? Json(figures.occupancy->blocks) : Json(nullptr);
  json["occupancy"] = figures.occupancy ? Json(figures.occupancy->fraction) : Json(nullptr);
  json["occupancy_limit"] = figures.occupancy ? Json(figures.occupancy->limit) : Json(nullptr);
  json["launches"] = figures.launches;
  json["flops"] = figures.counts.f32_ops + figures.counts.f64_ops;
  visit_counts(figures.counts, [&](const char* name, const double& value) { json[name] = value; });
  json["intensity"] = intensity(figures.counts);
  const auto time = [](double seconds) { return seconds > 0 ? Json(seconds) : Json(nullptr); };
  json["gpu_roofline_s"] = time(figures.gpu_roofline_seconds);
  json["cpu_roofline_s"] = time(figures.cpu_roofline_seconds);
  json["schedule"] = figures.schedule.empty() ? Json(nullptr) : Json(figures.schedule);
  json["estimate_s"] = figures.estimated_seconds ? Json(*figures.estimated_seconds) : Json(nullptr);
  json["measured_s"] = figures.measured_seconds ? Json(*figures.measured_seconds) : Json(nullptr);
  return json;
}

KernelFigures figures_from_json(const Json& json) {
  KernelFigures figures;
  figures.no_resources = json.value("no_resources", "");
  if (!json.at("registers").is_null()) {
    figures.resources.emplace();
    visit_resources(*figures.resources, [&](const char* name, std::int64_t& value) { value = json.at(name); });
  }
  figures.block_threads = json.at("block_threads");
  figures.launches = json.value("launches", std::int64_t{1});
  if (!json.at("occupancy").is_null())
    figures.occupancy =
        Occupancy{json.at("blocks_per_multiprocessor"), json.at("occupancy"), json.at("occupancy_limit")};
  visit_counts(figures.counts, [&](const char* name, double& value) { value = json.at(name); });
  const auto time = [&](const char* name) -> std::optional<double> {
    const Json value = json.value(name, Json());
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
  };
  figures.gpu_roofline_seconds = time("gpu_roofline_s").value_or(0);
  figures.cpu_roofline_seconds = time("cpu_roofline_s").value_or(0);
  figures.estimated_seconds = time("estimate_s");
  if (const Json schedule = json.value("schedule", Json()); !schedule.is_null()) figures.schedule = schedule;
  figures.measured_seconds = time("measured_s");
  return figures;
}

}  // namespace moxie
