#include "tools/commands/report_image.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tools/commands/report_chart.h"

namespace moxie {
namespace {

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

/// Highest byte first.
std::string big_endian(std::size_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

/// Portable Network Graphics specification, section 5.3.
std::string chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  return big_endian(data.size()) + body + big_endian(crc32(0, bytes_of(body), static_cast<uInt>(body.size())));
}

/// Every row begins with its filter, 0 for none.
std::string scan_lines(const GreyImage& image) {
  std::string lines;
  for (std::size_t y = 0; y < image.height; ++y) {
    lines += '\0';
    for (std::size_t x = 0; x < image.width; ++x) {
      const double value = image.values[y * image.width + x];
      const double grey = value > 0 ? std::min(value, 1.0) : 0;  // also where it is not a number
      lines += static_cast<char>(std::lround(255 * grey));
    }
  }
  return lines;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  compress(reinterpret_cast<Bytef*>(result.data()), &size, bytes_of(bytes), bytes.size());
  result.resize(size);
  return result;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned group = 0;
    for (std::size_t k = at; k < at + 3; ++k)
      group = group << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += at + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string png(const GreyImage& image) {
  const std::string form = {8, 0, 0, 0,
                            0};  // bits, grey, and the only ways there are to compress, filter and interlace
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", big_endian(image.width) + big_endian(image.height) + form) +
         chunk("IDAT", deflated(scan_lines(image))) + chunk("IEND", "");
}

std::string image_element(const GreyImage& image, const std::string& description) {
  return fmt::format("<img class=\"pixels\" alt=\"{}\" src=\"data:image/png;base64,{}\"/>", escaped(description),
                     base64(png(image)));
}

}  // namespace moxie
