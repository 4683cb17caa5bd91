#include "tests/lab/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/lab/routing.h"

namespace heddle::lab {

Console::Console()
    : colour_(::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr),
      start_(boot_now()) {}

double Console::seconds() const {
  return std::chrono::duration<double>(boot_now() - start_).count();
}

std::string Console::paint(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

// Each line is flushed: whoever watches through a pipe sees progress, too.
void Console::title(std::string_view text) {
  fmt::print("\n{}\n", paint("1", text));
  std::fflush(stdout);
}

void Console::say(std::string_view text) {
  fmt::print("{} {}\n", paint("2", fmt::format("{:6.1f} s", seconds())), text);
  std::fflush(stdout);
}

void Console::more(std::string_view text) {
  fmt::print("         {}\n", text);
  std::fflush(stdout);
}

std::string Console::share(double value) const {
  const char* code = value >= 0.95 ? "32" : value >= 0.7 ? "33" : "31";
  return paint(code, fmt::format("{:.3f}", value));
}

std::string Console::strong(std::string_view text) const {
  return paint("1", text);
}

CpuTime CpuTime::read() {
  // user nice system idle iowait irq softirq steal
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  CpuTime time;
  for (int i = 0; i < 8; ++i) {
    double ticks = 0;
    file >> ticks;
    time.total += ticks;
    if (i == 3 || i == 4)
      time.idle += ticks;
  }
  return time;
}

double idle_percent(const CpuTime& from, const CpuTime& to) {
  return 100 * (to.idle - from.idle) / std::max(1.0, to.total - from.total);
}

}  // namespace heddle::lab
