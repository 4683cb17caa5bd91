// Asks the kernel which way a packet would go (stage "verify"): a route that was read back may
// still be passed over by another rule, or not be taken at all. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/program/desire.h"
#include "agent/program/main_view.h"
#include "agent/program/route_kernel.h"
#include "common/core/plan.h"

namespace heddle {

class Verifier {
 public:
  // Asks for each route that is installed and was not asked for yet; forgets those that are not
  // held any more. False if the kernel did not answer.
  bool verify(RouteKernel& kernel, const MainView& view, const std::vector<Pin>& pins,
              const std::vector<Desire::Held>& held, const SteeringTables& installed);
  // Why a route is not effective; nullptr if it is, or if that could not be asked (no packet can
  // come in by a port without carrier).
  const std::string* failure(const PinRoute& route) const;
  // The kernel was asked and would take it.
  bool confirmed(const PinRoute& route) const;
  bool any_failure() const;
  // So that verify() asks again.
  void forget() { verdicts_.clear(); }
  void forget_failures();

 private:
  std::map<PinRoute, std::string> verdicts_;  // empty: effective
};

}  // namespace heddle
