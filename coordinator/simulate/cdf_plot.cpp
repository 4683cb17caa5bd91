#include "coordinator/simulate/cdf_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle::sim {
namespace {

constexpr double kWidth = 460, kHeight = 280;
constexpr double kLeft = 46, kRight = 14, kTop = 30, kBottom = 46;
constexpr std::size_t kMostPoints = 200;

// From a value to its place on the drawing.
class Axis {
 public:
  Axis(double least, double most, bool logarithmic) : logarithmic_(logarithmic) {
    low_ = map(least);
    high_ = map(most);
    if (high_ - low_ < 1e-12) {
      low_ -= 0.5;
      high_ += 0.5;
    }
  }
  double x(double value) const {
    const double share = std::clamp((map(value) - low_) / (high_ - low_), 0.0, 1.0);
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  std::vector<double> ticks() const {
    std::vector<double> values;
    if (logarithmic_ && high_ - low_ >= 1.0) {
      const double step = std::max(1.0, std::ceil((high_ - low_) / 6.0));
      for (double power = std::ceil(low_); power <= high_ + 1e-9; power += step)
        values.push_back(std::pow(10.0, power));
      return values;
    }
    for (int i = 0; i <= 4; ++i) {
      const double at = low_ + (high_ - low_) * i / 4.0;
      values.push_back(logarithmic_ ? std::pow(10.0, at) : at);
    }
    return values;
  }

 private:
  double map(double value) const {
    return logarithmic_ ? std::log10(std::max(value, 1e-9)) : value;
  }

  bool logarithmic_;
  double low_;
  double high_;
};

double y(double share) {
  return kHeight - kBottom - share * (kHeight - kTop - kBottom);
}

std::string path_of(const Curve& curve, const Axis& axis) {
  std::vector<double> samples = curve.samples;
  std::ranges::sort(samples);
  const std::size_t n = samples.size();
  const std::size_t points = std::min(n, kMostPoints);
  std::string path = fmt::format("M{:.1f},{:.1f}", axis.x(samples.front()), y(0.0));
  for (std::size_t i = 1; i <= points; ++i) {
    const std::size_t rank = i * n / points;
    path += fmt::format("H{:.1f}V{:.1f}", axis.x(samples[rank - 1]),
                        y(static_cast<double>(rank) / static_cast<double>(n)));
  }
  return path + fmt::format("H{:.1f}", kWidth - kRight);
}

}  // namespace

std::string curve_colour(std::size_t n) {
  constexpr std::array kColours{"#d55e00", "#e69f00", "#56b4e9", "#cc79a7",
                                "#999999", "#009e73", "#0072b2", "#f0e442"};
  return kColours[n % kColours.size()];
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string cdf_svg(const PlotText& text, const std::vector<Curve>& curves) {
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\"><text x=\"{3}\" y=\"18\" "
      "class=\"t\">{2}</text>",
      kWidth, kHeight, escaped(text.title), kLeft);
  double least = 0.0, most = 0.0;
  bool any = false;
  for (const Curve& curve : curves) {
    for (const double sample : curve.samples) {
      if (text.logarithmic && sample <= 0.0)
        continue;
      least = any ? std::min(least, sample) : sample;
      most = any ? std::max(most, sample) : sample;
      any = true;
    }
  }
  if (!any)
    return svg + fmt::format("<text x=\"{}\" y=\"{}\">no data in this sweep</text></svg>\n", kLeft,
                             kHeight / 2);

  const Axis axis(least, most, text.logarithmic);
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    svg += fmt::format(
        "<path class=\"g\" d=\"M{0},{2:.1f}H{1}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}%</text>",
        kLeft, kWidth - kRight, y(share), kLeft - 6, y(share) + 4, 100.0 * share);
  for (const double tick : axis.ticks())
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.3g}</text>",
                       axis.x(tick), kHeight - kBottom + 16, tick);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escaped(text.axis));
  for (std::size_t i = 0; i < curves.size(); ++i)
    if (!curves[i].samples.empty())
      svg += fmt::format("<path class=\"c\" stroke=\"{}\" d=\"{}\"><title>{}</title></path>",
                         curve_colour(i), path_of(curves[i], axis), escaped(curves[i].name));
  return svg + "</svg>\n";
}

}  // namespace heddle::sim
