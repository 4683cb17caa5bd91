// A cumulative distribution of several schemes as one inline SVG drawing, for a page that opens
// from disk. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::sim {

struct Curve {
  std::string name{};
  std::vector<double> samples{};  // in any order
};

struct PlotText {
  std::string title{};
  std::string axis{};  // what is measured, with its unit
  bool logarithmic{};  // for what spans decades; samples that are not above zero are drawn at the
                       // left edge
};

// An empty drawing says so.
std::string cdf_svg(const PlotText& text, const std::vector<Curve>& curves);

// The colour of the n-th curve; distinguishable with the common colour blindnesses (Okabe and Ito).
std::string curve_colour(std::size_t n);

// For HTML and SVG text.
std::string escaped(std::string_view text);

}  // namespace heddle::sim
