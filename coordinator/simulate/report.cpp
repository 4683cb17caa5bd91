#include "coordinator/simulate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "coordinator/simulate/cdf_plot.h"

namespace heddle::sim {
namespace {

// More places in the grid than this are shown together only: a page is to be read.
constexpr std::size_t kMostPlaces = 24;

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--line:#8884;--faint:#888}
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}
pre{background:#8881;padding:.7em;overflow-x:auto;white-space:pre-wrap}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(360px,1fr));gap:1em}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:currentColor}svg .t{font-size:13px;font-weight:600}
svg .g{stroke:var(--line);fill:none}svg .c{fill:none;stroke-width:2}
.key span{display:inline-block;margin-right:1.2em}.key i{display:inline-block;width:1.4em;height:.3em;margin-right:.4em;vertical-align:middle}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:.2em .6em;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{position:sticky;top:0;background:Canvas}td.s,th.s{text-align:left}tr.heddle td{font-weight:600}
)";

using Rows = std::vector<const Row*>;

std::vector<std::string> schemes_of(const std::vector<Row>& rows) {
  std::vector<std::string> schemes;
  for (const Row& row : rows)
    if (std::ranges::find(schemes, row.scheme) == schemes.end())
      schemes.push_back(row.scheme);
  return schemes;
}

void add_quantiles(const Distribution& distribution, std::vector<double>& samples) {
  if (distribution.empty())
    return;
  constexpr int kPoints = 200;
  for (int i = 1; i <= kPoints; ++i)
    samples.push_back(distribution.quantile(static_cast<double>(i) / kPoints));
}

using Samples = std::function<void(const Row&, std::vector<double>&)>;

std::vector<Curve> curves(const Rows& rows, const std::vector<std::string>& schemes,
                          const Samples& samples) {
  std::vector<Curve> result;
  for (const std::string& scheme : schemes) {
    Curve curve{.name = scheme};
    for (const Row* row : rows)
      if (row->scheme == scheme)
        samples(*row, curve.samples);
    result.push_back(std::move(curve));
  }
  return result;
}

std::string plots(const Rows& rows, const std::vector<std::string>& schemes,
                  const OutputOptions& options) {
  std::string html = "<div class=\"plots\">\n";
  html += cdf_svg({"Job efficiency", "share of what the NICs allow", false},
                  curves(rows, schemes, [](const Row& row, std::vector<double>& s) {
                    s.insert(s.end(), row.all.efficiency.ascending.begin(),
                             row.all.efficiency.ascending.end());
                  }));
  html += cdf_svg({"All-reduce time", "ms, mean of each job", true},
                  curves(rows, schemes, [](const Row& row, std::vector<double>& s) {
                    std::ranges::copy_if(row.allreduce_ms, std::back_inserter(s),
                                         [](double ms) { return std::isfinite(ms); });
                  }));
  html += cdf_svg({"Flow completion time", "ms", true},
                  curves(rows, schemes, [](const Row& row, std::vector<double>& s) {
                    add_quantiles(row.completion_ms, s);
                  }));
  html += cdf_svg({"Throughput of a transfer", "Gb/s", false},
                  curves(rows, schemes, [](const Row& row, std::vector<double>& s) {
                    add_quantiles(row.throughput_gbps, s);
                  }));
  if (options.times)
    html += cdf_svg({"Solver time, from nothing", "ms of processor time", true},
                    curves(rows, schemes, [](const Row& row, std::vector<double>& s) {
                      add_quantiles(row.solver_ms, s);
                    }));
  return html + "</div>\n";
}

std::string key(const std::vector<std::string>& schemes) {
  std::string html = "<p class=\"key\">";
  for (std::size_t i = 0; i < schemes.size(); ++i)
    html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", curve_colour(i),
                        escaped(schemes[i]));
  return html + "</p>\n";
}

std::string table_html(const TableText& table) {
  const auto text_column = [&](std::size_t i) {
    return table.titles[i] == "workload" || table.titles[i] == "scheme";
  };
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t i = 0; i < table.titles.size(); ++i)
    html += fmt::format("<th{}>{}</th>", text_column(i) ? " class=\"s\"" : "",
                        escaped(table.titles[i]));
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    const bool ours = std::ranges::find(row, "heddle") != row.end();
    html += ours ? "<tr class=\"heddle\">" : "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += fmt::format("<td{}>{}</td>", text_column(i) ? " class=\"s\"" : "", escaped(row[i]));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// A place in the grid without the number of jobs and the seed.
std::string place(const Coordinates& at) {
  return fmt::format(
      "{}: {} spines down, {:g} % of links down, oversubscription {:g}, {} queue pairs",
      at.workload, at.spines_down, 100.0 * at.links_down, at.oversubscription, at.qps);
}

}  // namespace

std::string report_html(const Sweep& sweep, const std::string& command,
                        const OutputOptions& options) {
  const std::vector<std::string> schemes = schemes_of(sweep.rows);
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>heddle "
      "simulate</title>"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>";
  html += kStyle;
  html += "</style></head><body>\n<h1>heddle simulate</h1>\n<p>To repeat it:</p><pre>" +
          escaped(command) + "</pre>\n";
  html += "<h2>Findings</h2><ul>\n";
  for (const std::string& line : findings(sweep))
    html += "<li>" + escaped(line) + "</li>\n";
  html +=
      "</ul>\n<p>A job's efficiency is the time its communication would take if only its NICs "
      "limited it, over the "
      "time it takes; 1 is the best. \"At least\" is the smallest possible maximum of subflows on "
      "a "
      "link, and \"% of "
      "bound\" compares the worst-off job with what no routing can beat. With several seeds a line "
      "shows the worst "
      "of them.</p>\n";

  Rows all;
  std::vector<std::pair<std::string, Rows>> places;
  for (const Row& row : sweep.rows) {
    all.push_back(&row);
    const std::string name = place(row.at);
    const auto it = std::ranges::find(places, name, &std::pair<std::string, Rows>::first);
    (it == places.end() ? places.emplace_back(name, Rows{}) : *it).second.push_back(&row);
  }
  html +=
      "<h2>Distributions over the whole sweep</h2>\n" + key(schemes) + plots(all, schemes, options);
  if (places.size() > 1 && places.size() <= kMostPlaces)
    for (const auto& [name, rows] : places)
      html += "<details><summary>" + escaped(name) + "</summary>\n" + key(schemes) +
              plots(rows, schemes, options) + "</details>\n";
  html += "<h2>Every cell</h2>\n" + table_html(table_of(summarise(sweep.rows), options));
  return html + "</body></html>\n";
}

}  // namespace heddle::sim
