#include "coordinator/simulate/distribution.h"

#include <algorithm>
#include <cmath>

namespace heddle::sim {

Distribution::Distribution(std::vector<double> samples) : count_(samples.size()) {
  if (samples.empty())
    return;
  std::ranges::sort(samples);
  for (std::size_t i = 0; i <= kSteps; ++i) {
    const std::size_t rank =
        (i * samples.size() + kSteps - 1) / kSteps;  // the nearest-rank definition
    quantiles_[i] = samples[rank == 0 ? 0 : rank - 1];
  }
}

double Distribution::quantile(double p) const {
  return quantiles_[static_cast<std::size_t>(std::lround(std::clamp(p, 0.0, 1.0) * kSteps))];
}

}  // namespace heddle::sim
