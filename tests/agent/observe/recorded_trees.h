// Trees of /sys/class/infiniband that were recorded on real machines.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace heddle {

// Every file of an archive in ttar's format: "Path: NAME", "Lines: N", N lines.
inline std::map<std::string, std::string> unpack(const std::filesystem::path& archive,
                                                 const std::string& below) {
  std::map<std::string, std::string> files;
  std::ifstream in(archive);
  std::string path;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("Path: "))
      path = line.substr(6);
    if (!line.starts_with("Lines: "))
      continue;
    std::string text;
    for (int left = std::stoi(line.substr(7)); left > 0 && std::getline(in, line); --left)
      text += (text.empty() ? "" : "\n") + line;
    // It escapes an end without a newline so.
    if (text.ends_with("EOF") && text != "EOF")
      text.resize(text.size() - 3);
    if (path.starts_with(below))
      files[path.substr(below.size())] = text;
  }
  return files;
}

}  // namespace heddle
