// A distribution in little memory: its quantiles at 0, 0.5, 1 ... 100 %. A sweep of thousands of
// cells keeps these, not the samples. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace heddle::sim {

class Distribution {
 public:
  Distribution() = default;
  explicit Distribution(std::vector<double> samples);

  bool empty() const { return count_ == 0; }
  std::uint64_t count() const { return count_; }
  // The least sample that is not below a share p (0 to 1) of all, to within half a percent of p; 0
  // if empty.
  double quantile(double p) const;
  double max() const { return quantile(1.0); }

 private:
  static constexpr std::size_t kSteps = 200;
  std::array<double, kSteps + 1> quantiles_{};
  std::uint64_t count_{};
};

}  // namespace heddle::sim
