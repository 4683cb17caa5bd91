// A tree of small files on disk. One thread.
#pragma once

#include <filesystem>

#include "agent/observe/file_tree.h"

namespace heddle {

class DirectoryTree final : public FileTree {
 public:
  explicit DirectoryTree(std::filesystem::path root) : root_(std::move(root)) {}

  std::vector<std::string> list(const std::string& folder) const override;
  Result<std::string> read(const std::string& file) const override;

 private:
  std::filesystem::path root_;
};

}  // namespace heddle
