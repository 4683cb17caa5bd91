#include "coordinator/cli/archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

namespace heddle {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kLongestName = 100;

// A header as POSIX.1-1988 (ustar) has it: numbers in octal text.
class Header {
 public:
  Header() { block_.fill('\0'); }
  void put(std::size_t at, std::string_view text) {
    std::ranges::copy(text, block_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::string sealed() {
    put(148, "        ");  // The sum is taken with blanks in its own place.
    const unsigned sum = std::accumulate(
        block_.begin(), block_.end(), 0U,
        [](unsigned total, char c) { return total + static_cast<unsigned char>(c); });
    put(148, fmt::format("{:06o}", sum));
    block_[154] = '\0';
    return {block_.begin(), block_.end()};
  }

 private:
  std::array<char, kBlock> block_{};
};

std::string compressed(std::string& tar) {
  z_stream stream{};
  // 16 more than the window's bits asks for gzip's frame.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(deflateBound(&stream, tar.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar.data());
  stream.avail_in = static_cast<uInt>(tar.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = deflate(&stream, Z_FINISH);
  out.resize(done == Z_STREAM_END ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

}  // namespace

Result<std::string> tar_gz(const std::map<std::string, std::string>& files, WallTime wall) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count();
  std::string tar;
  for (const auto& [path, text] : files) {
    if (path.size() > kLongestName)
      return fail(Errc::invalid_argument, fmt::format("'{}' is too long a path", path));
    Header header;
    header.put(0, path);
    header.put(100, "0000600");
    header.put(108, "0000000");
    header.put(116, "0000000");
    header.put(124, fmt::format("{:011o}", text.size()));
    header.put(136, fmt::format("{:011o}", seconds));
    header.put(156, "0");
    header.put(257, "ustar");
    header.put(263, "00");
    tar += header.sealed() + text;
    tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock, '\0');
  }
  tar.resize(tar.size() + 2 * kBlock, '\0');
  std::string out = compressed(tar);
  if (out.empty())
    return fail(Errc::io, "cannot compress");
  return out;
}

}  // namespace heddle
