#include "runtime/dump/dump_html.h"

#include <fmt/format.h>

#include "codegen_templates/templates.h"
#include "runtime/dump/dump_json.h"

namespace moxie {
namespace {

constexpr std::string_view kPlace = "<!-- data -->";

/// JSON inside of a page: no text of it may look like the end of the element. Read only when it is needed, each part
/// for itself.
std::string data_element(const std::string& id, const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = text.find("</"); at != text.npos; at = text.find("</", at + 3)) text.replace(at, 2, "<\\/");
  for (std::size_t at = text.find("<!--"); at != text.npos; at = text.find("<!--", at))
    text.replace(at, 4, "<\\u0021--");
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, text);
}

Json texts_to_json(const std::vector<StageText>& texts) {
  Json list = Json::array();
  for (const StageText& text : texts) {
    Json entry = stage_to_json(text);
    entry.erase("extension");
    if (text.missing.empty()) entry["text"] = text.text;
    if (!text.diff.empty()) entry["diff"] = text.diff;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string dump_html(const Dump& dump) {
  Json head = head_to_json(dump);
  head["kernels"] = Json::array();
  for (const KernelDump& kernel : dump.kernels) {
    Json entry = figures_to_json(kernel.figures);
    entry["name"] = kernel.name;
    head["kernels"].push_back(std::move(entry));
  }
  std::string data = data_element("head", head) + data_element("program", texts_to_json(dump.program));
  for (std::size_t k = 0; k < dump.kernels.size(); ++k)
    data += data_element(fmt::format("kernel{}", k), texts_to_json(dump.kernels[k].stages));
  std::string page(template_text("dump/page.html"));
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

}  // namespace moxie
