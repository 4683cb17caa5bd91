#include "coordinator/simulate/ilp.h"

#include <coin/Cbc_C_Interface.h>

#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "common/core/check.h"
#include "common/core/optimiser_model.h"

namespace heddle {
namespace {

constexpr double kMostSeconds = 10.0;

// Units of one size between two leaves are interchangeable, so the program asks only how many of
// them go over each uplink: far fewer variables than one for each unit and path, and no symmetric
// solutions.
class IntegerProgram {
 public:
  explicit IntegerProgram(const Model& model) : model_(model), solver_(Cbc_newModel()) {
    Cbc_setLogLevel(solver_, 0);
    Cbc_setMaximumSeconds(solver_, kMostSeconds);
    Cbc_setObjSense(solver_, 1.0);
    group_units();
    add_variables();
    add_rows();
  }
  ~IntegerProgram() { Cbc_deleteModel(solver_); }
  IntegerProgram(const IntegerProgram&) = delete;
  IntegerProgram& operator=(const IntegerProgram&) = delete;

  // Choices by unit, or nothing if no solution was found in time.
  std::vector<Model::Choice> solve(bool& proven) {
    Cbc_solve(solver_);
    proven = Cbc_isProvenOptimal(solver_) != 0;
    if (!proven && Cbc_numberSavedSolutions(solver_) == 0)
      return {};
    const double* counts = Cbc_getColSolution(solver_);
    std::vector<Model::Choice> choices(model_.units().size());
    for (const Group& group : groups_) {
      auto next = group.units.begin();
      for (const auto& [variable, choice] : group.options)
        for (long n = std::lround(counts[variable]); n > 0 && next != group.units.end(); --n) {
          // The cable is the group's, the way to it each unit's own: it names the unit's NICs.
          const std::uint32_t unit = *next++;
          choices[unit] = {.way = model_.units()[unit].first_way, .up = choice.up};
        }
      if (next != group.units.end())
        return {};
    }
    return choices;
  }

 private:
  struct Group {
    std::uint32_t size{};
    std::vector<std::uint32_t> units;
    std::vector<std::pair<int, Model::Choice>> options;  // variables
  };

  void group_units() {
    std::map<std::tuple<LeafId, LeafId, std::uint32_t>, std::size_t> group_of;
    const auto units = model_.units();
    for (std::uint32_t u = 0; u < units.size(); ++u) {
      const Model::Way& way = model_.ways()[units[u].first_way];
      const auto [found, is_new] =
          group_of.try_emplace({way.from_leaf, way.to_leaf, units[u].size()}, groups_.size());
      if (is_new)
        groups_.push_back({.size = units[u].size(), .units = {}, .options = {}});
      groups_[found->second].units.push_back(u);
    }
  }

  int add_variable(double most, double cost) {
    Cbc_addCol(solver_, "", 0.0, most, cost, 1, 0, nullptr, nullptr);
    return variables_++;
  }

  void add_variables() {
    fullest_ = add_variable(static_cast<double>(model_.subflows()), 1.0);
    for (Group& group : groups_) {
      // Only the first way in and out, as the other schemes that know no attachments.
      Model::Unit unit = model_.units()[group.units.front()];
      unit.end_way = unit.first_way + 1;
      model_.for_each_choice(unit, [&](const Model::Choice& choice, ResourceId, ResourceId) {
        group.options.emplace_back(add_variable(static_cast<double>(group.units.size()), 0.0),
                                   choice);
      });
    }
  }

  void add_rows() {
    struct Row {
      std::vector<int> variables;
      std::vector<double> factors;
    };
    std::map<ResourceId, Row> links;
    for (const Group& group : groups_) {
      std::vector<int> all;
      for (const auto& [variable, choice] : group.options) {
        all.push_back(variable);
        for (const ResourceId r : {model_.uplink(choice.up), model_.downlinks(choice)}) {
          links[r].variables.push_back(variable);
          links[r].factors.push_back(group.size);
        }
      }
      const std::vector<double> ones(all.size(), 1.0);
      Cbc_addRow(solver_, "", static_cast<int>(all.size()), all.data(), ones.data(), 'E',
                 static_cast<double>(group.units.size()));
    }
    for (auto& [r, row] : links) {
      const Model::Resource& resource = model_.resources()[r.value];
      row.variables.push_back(fullest_);
      row.factors.push_back(-static_cast<double>(resource.lanes));
      Cbc_addRow(solver_, "", static_cast<int>(row.variables.size()), row.variables.data(),
                 row.factors.data(), 'L', -static_cast<double>(resource.fixed));
    }
  }

  const Model& model_;
  Cbc_Model* solver_;
  std::vector<Group> groups_;
  int variables_{};
  int fullest_{};
};

class Ilp final : public Optimiser {
 public:
  std::string_view name() const override { return "ilp"; }

  Placement place(const Problem& problem, std::uint64_t seed) const override {
    const Model model(problem);
    if (model.units().empty())
      return model.place(std::vector<Model::Choice>{});
    static std::mutex one_at_a_time;
    const std::scoped_lock lock(one_at_a_time);
    bool proven = false;
    const std::vector<Model::Choice> choices = IntegerProgram(model).solve(proven);
    if (choices.empty()) {
      Placement fallback = make_optimiser("greedy")->place(problem, seed);
      fallback.notes.emplace_back("the integer program found nothing in time; this is greedy's");
      return fallback;
    }
    Placement placement = model.place(choices);
    placement.proven = proven;
    return placement;
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_ilp() {
  return std::make_unique<Ilp>();
}

std::unique_ptr<Optimiser> make_scheme(std::string_view name) {
  return name == "ilp" ? make_ilp() : make_optimiser(name);
}

std::vector<std::string_view> scheme_names() {
  std::vector<std::string_view> names = optimiser_names();
  names.emplace_back("ilp");
  return names;
}

}  // namespace heddle
