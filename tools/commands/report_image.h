#pragma once
// Grey images as parts of a page.
#include <cstddef>
#include <string>
#include <vector>

namespace moxie {

/// Rows from the top, each from the left: 0 and less is black, 1 and more white.
struct GreyImage {
  std::size_t width = 0, height = 0;
  std::vector<double> values;
};

/// A PNG file of 8 bits per pixel.
std::string png(const GreyImage& image);

/// An element that holds the whole image, its pixels as squares; `description` is for those who cannot see it.
std::string image_element(const GreyImage& image, const std::string& description);

}  // namespace moxie
