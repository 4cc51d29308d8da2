// From measurements to tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tools/commands/command.h"
#include "tools/commands/experiment.h"

namespace moxie {
namespace {

const PublishedFigure* find_published(const Experiment& experiment, const TableEntry& entry) {
  for (const PublishedFigure& figure : experiment.published) {
    const bool row_fits = figure.row.empty() || figure.row == entry.row;
    if (row_fits && figure.column == entry.column && figure.metric == entry.metric) return &figure;
  }
  return nullptr;
}

TableEntry& entry_for(std::vector<TableEntry>& table, const std::string& row, const std::string& column,
                      const std::string& metric) {
  const auto found = std::ranges::find_if(table, [&](const TableEntry& entry) {
    return entry.row == row && entry.column == column && entry.metric == metric;
  });
  return found != table.end() ? *found : table.emplace_back(TableEntry{row, column, metric});
}

std::string settings_of(const nlohmann::ordered_json& measured) {
  return fmt::format("{}", fmt::join(measured.value("settings", std::vector<std::string>()), ", "));
}

/// Adds one value to a mean and a sum of squared distances from it.
void add(TableEntry& entry, double value) {
  ++entry.count;
  const double before = value - entry.mean;
  entry.mean += before / static_cast<double>(entry.count);
  entry.deviation += before * (value - entry.mean);
}

std::vector<std::string> names(const std::vector<TableEntry>& table, std::string TableEntry::* member) {
  std::vector<std::string> result;
  for (const TableEntry& entry : table) {
    if (std::ranges::find(result, entry.*member) == result.end()) result.push_back(entry.*member);
  }
  return result;
}

std::string with_deviation(double value, std::optional<double> deviation) {
  return deviation ? fmt::format("{:.4g} ± {:.2g}", value, *deviation) : fmt::format("{:.4g}", value);
}

/// What was measured with settings other than the usual ones, a line for each choice of them.
std::string notes_on_settings(const std::vector<TableEntry>& table) {
  std::string text;
  for (const std::string& settings : names(table, &TableEntry::settings)) {
    if (settings.empty()) continue;
    std::vector<std::string> cells;
    for (const TableEntry& entry : table) {
      std::string cell = fmt::format("{} on {}", entry.row, entry.column);
      if (entry.settings == settings && std::ranges::find(cells, cell) == cells.end()) cells.push_back(std::move(cell));
    }
    text += fmt::format("\nWith {}: {}.\n", settings, fmt::join(cells, "; "));
  }
  return text;
}

std::string cell_text(const TableEntry& entry) {
  std::string text = with_deviation(entry.mean, entry.count > 1 ? std::optional(entry.deviation) : std::nullopt);
  if (entry.published) text += fmt::format(" ({})", with_deviation(entry.published->value, entry.published->deviation));
  return text;
}

}  // namespace

std::string Cell::key() const {
  std::string text = fmt::format("{}.{}.{}", row, column, replicate);
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  return text;
}

double metric_of(const nlohmann::ordered_json& measured, const std::string& name) {
  const auto found = measured.find(name);
  return found != measured.end() && found->is_number() ? found->get<double>() : std::nan("");
}

std::vector<TableEntry> table_of(const Experiment& experiment,
                                 const std::vector<nlohmann::ordered_json>& measurements) {
  std::vector<TableEntry> table;
  for (const std::string& metric : experiment.metrics) {
    for (const nlohmann::ordered_json& measured : measurements) {
      const double value = metric_of(measured, metric);
      if (std::isnan(value)) continue;
      TableEntry& entry = entry_for(table, measured.at("row"), measured.at("column"), metric);
      entry.settings = settings_of(measured);
      add(entry, value);
    }
  }
  for (TableEntry& entry : table) {
    entry.deviation = entry.count > 1 ? std::sqrt(entry.deviation / static_cast<double>(entry.count - 1)) : 0;
    entry.published = find_published(experiment, entry);
  }
  return table;
}

std::string markdown(const Experiment& experiment, const std::vector<TableEntry>& table) {
  const std::vector<std::string> columns = names(table, &TableEntry::column);
  std::string text = fmt::format("# {}\n\n{}\n", experiment.name, experiment.summary);
  for (const std::string& metric : names(table, &TableEntry::metric)) {
    text += fmt::format("\n## {}\n\n| |", metric);
    for (const std::string& column : columns) text += fmt::format(" {} |", column);
    text += "\n| --- |";
    for (std::size_t k = 0; k < columns.size(); ++k) text += " --- |";
    for (const std::string& row : names(table, &TableEntry::row)) {
      text += fmt::format("\n| {} |", row);
      for (const std::string& column : columns) {
        const auto entry = std::ranges::find_if(
            table, [&](const TableEntry& e) { return e.row == row && e.column == column && e.metric == metric; });
        text += fmt::format(" {} |", entry == table.end() ? "" : cell_text(*entry));
      }
    }
    text += '\n';
  }
  if (!experiment.source.empty() && !experiment.published.empty())
    text += fmt::format("\nIn brackets: {}.\n", experiment.source);
  return text + "\nMean ± standard deviation over the replicates.\n" + notes_on_settings(table);
}

}  // namespace moxie
