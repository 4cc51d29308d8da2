#include "tools/commands/train_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "compiler/text/source_text.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

/// JSON would make 1 of 1.5, and a large number of -1.
template <class Value>
Value number_of_kind(const Json& json) {
  const bool fits = std::is_same_v<Value, bool> || std::is_floating_point_v<Value> ||
                    (std::is_unsigned_v<Value> ? json.is_number_unsigned() : json.is_number_integer());
  if (!fits) throw UsageError("another kind of number");
  return json.get<Value>();
}

/// As an option of the command line takes its value; values of lists are appended. Throws an exception for text of
/// another kind.
template <class Value>
void assign(Value& member, const std::string& text) {
  if constexpr (std::is_same_v<Value, std::string>) {
    member = text;
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    for (std::string& part : split_list(text)) member.push_back(std::move(part));
  } else if constexpr (std::is_arithmetic_v<Value>) {
    member = number_of_kind<Value>(Json::parse(text));
  } else {
    for (const Json& element : Json::parse("[" + text + "]"))
      member.push_back(number_of_kind<typename Value::value_type>(element));
  }
}

template <class Value>
constexpr const char* kind_of() {
  if constexpr (std::is_same_v<Value, bool>) return "true or false";
  if constexpr (std::is_unsigned_v<Value>) return "a whole number without sign";
  if constexpr (std::is_integral_v<Value>) return "a whole number";
  if constexpr (std::is_floating_point_v<Value>) return "a number";
  return "numbers with commas between them";
}

std::string name_in(const std::string& setting) { return setting.substr(0, setting.find('=')); }

/// What a misspelt name may have meant.
std::string similar_setting(const TrainConfig& config, const std::string& unknown) {
  std::vector<std::string> names;
  visit_fields(config, [&](const char*, const char* name, const auto&, const char*) { names.emplace_back(name); });
  const std::string similar = did_you_mean(unknown, names);
  return similar.empty() ? "" : "; " + similar;
}

/// Whether an option of this name takes a list of texts.
bool takes_texts(const std::string& option) {
  const TrainConfig config;
  bool result = false;
  visit_fields(config, [&](const char*, const char* name, const auto& value, const char*) {
    result = result || (option == name && std::is_same_v<decltype(value), const std::vector<std::string>&>);
  });
  return result;
}

bool is_option(const std::string& option) {
  const TrainConfig config;
  bool result = false;
  visit_fields(config,
               [&](const char*, const char* name, const auto&, const char*) { result = result || option == name; });
  return result;
}

}  // namespace

TrainConfig with_settings(const TrainConfig& config, const std::vector<std::string>& settings) {
  TrainConfig result = config;
  std::set<std::string> seen;
  for (const std::string& setting : settings) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    bool known = false;
    visit_fields(result, [&](const char*, const char* name, auto& value, const char*) {
      if (setting.compare(0, equals, name) != 0) return;
      known = true;
      if constexpr (requires { value.clear(); })
        if (seen.insert(name).second) value.clear();
      try {
        assign(value, setting.substr(std::min(equals + 1, setting.size())));
      } catch (const std::exception&) {
        throw UsageError(fmt::format("--set {}: no value for --{}, which is {}", setting, name,
                                     kind_of<std::remove_reference_t<decltype(value)>>()));
      }
    });
    if (!known)
      throw UsageError(fmt::format("--set {}: give NAME=VALUE, an option of `moxie train` and its value{}", setting,
                                   similar_setting(result, setting.substr(0, equals))));
  }
  return result;
}

std::vector<std::string> whole_settings(const std::vector<std::string>& parts) {
  std::vector<std::string> settings;
  for (const std::string& part : parts) {
    const bool has_name = part.find('=') != part.npos;
    if (!settings.empty() && (!has_name || (!is_option(name_in(part)) && takes_texts(name_in(settings.back()))))) {
      settings.back() += "," + part;
    } else {
      settings.push_back(part);
    }
  }
  return settings;
}

}  // namespace moxie
