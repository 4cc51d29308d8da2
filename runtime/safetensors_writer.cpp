#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "compiler/support/error.h"
#include "runtime/atomic_file.h"
#include "runtime/safetensors.h"

namespace moxie {
namespace {

using Json = nlohmann::json;
using Named = std::pair<const std::string, HostTensor>;

constexpr std::size_t kAlignment = 8;  // of the data in the file, so that a mapped file can be used in place

/// Wide elements first: then every tensor is aligned without gaps.
std::vector<const Named*> storage_order(const TensorFile& contents) {
  std::vector<const Named*> order;
  for (const Named& named : contents.tensors) order.push_back(&named);
  std::ranges::stable_sort(order, std::greater(), [](const Named* named) { return size_of(named->second.dtype); });
  return order;
}

void verify(const Named& named) {
  const auto& [name, tensor] = named;
  if (name == "__metadata__") throw DataError("a safetensors file cannot hold a tensor named __metadata__; rename it");
  const std::size_t wanted = static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
  if (tensor.data.size() != wanted)
    throw DataError(fmt::format("tensor \"{}\" of shape [{}] holds {} bytes instead of {}", name,
                                fmt::join(tensor.shape, ", "), tensor.data.size(), wanted));
}

std::string header_text(const TensorFile& contents, const std::vector<const Named*>& order) {
  Json header = Json::object();
  if (!contents.metadata.empty()) header["__metadata__"] = contents.metadata;
  std::size_t offset = 0;
  for (const Named* named : order) {
    const auto& [name, tensor] = *named;
    header[name] = {{"dtype", info_of(tensor.dtype).safetensors},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
    return text;
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("a tensor's name or a metadata text is not UTF-8: {}", error.what()));
  }
}

}  // namespace

std::vector<std::byte> format_safetensors(const TensorFile& contents) {
  const std::vector<const Named*> order = storage_order(contents);
  for (const Named* named : order) verify(*named);
  const std::string header = header_text(contents, order);
  const std::uint64_t size = header.size();

  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  append(std::as_bytes(std::span(&size, 1)));
  append(std::as_bytes(std::span(header)));
  for (const Named* named : order) append(named->second.data);
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& contents) {
  atomic_write(path, format_safetensors(contents));
}

}  // namespace moxie
