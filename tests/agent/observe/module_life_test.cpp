// No module of RDMA can be loaded here: folders stand for those of sysfs.
#include "agent/observe/module_life.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace heddle {
namespace {

namespace fs = std::filesystem;

fs::path new_folder() {
  std::string pattern = (fs::temp_directory_path() / "heddle-module-XXXXXX").string();
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  return pattern;
}

class ModuleLifeTest : public ::testing::Test {
 protected:
  ~ModuleLifeTest() override { fs::remove_all(root); }

  fs::path root = new_folder();
  ModuleLife life{root / "ib_core"};
};

TEST_F(ModuleLifeTest, ChangesWhenTheModuleIsLoadedAndWhenItIsUnloaded) {
  EXPECT_TRUE(life.changed()) << "nothing is known before";
  EXPECT_FALSE(life.changed());
  fs::create_directory(root / "ib_core");
  EXPECT_TRUE(life.changed());
  EXPECT_FALSE(life.changed());
  fs::remove(root / "ib_core");
  EXPECT_TRUE(life.changed());
  EXPECT_FALSE(life.changed());
}

// Between two looks, so that it is there at both.
TEST_F(ModuleLifeTest, ChangesWhenTheModuleIsUnloadedAndLoadedAgain) {
  fs::create_directory(root / "ib_core");
  EXPECT_TRUE(life.changed());
  fs::create_directory(root / "next");
  fs::remove(root / "ib_core");
  fs::rename(root / "next", root / "ib_core");
  EXPECT_TRUE(life.changed());
  EXPECT_FALSE(life.changed());
}

}  // namespace
}  // namespace heddle
