#include "common/transport/keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

namespace heddle {

namespace {

constexpr std::size_t kKeyCharacters = 40;
constexpr std::size_t kKeyBytes = 32;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0)
      close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> file_error(const std::filesystem::path& file) {
  const int error = errno;
  const Errc code = error == ENOENT   ? Errc::not_found
                    : error == EEXIST ? Errc::duplicate
                    : error == EACCES ? Errc::permission
                                      : Errc::io;
  return fail(code, fmt::format("{}: {}", file.string(), std::generic_category().message(error)));
}

// The one line of a key file. A pipe or a device is refused, as reading it might never end.
Result<std::string> read_key(const std::filesystem::path& file, bool secret) {
  const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0)
    return file_error(file);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0)
    return file_error(file);
  if (!S_ISREG(status.st_mode))
    return fail(Errc::invalid_argument, fmt::format("{}: is not a file", file.string()));
  if (secret && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(
        Errc::permission,
        fmt::format(
            "{}: group or others may use this secret key (mode {:04o}): chmod 600 it, or make a "
            "new one if it may have been read",
            file.string(), status.st_mode & 07777U));
  }
  std::array<char, kKeyCharacters + 3> buffer{};
  const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
  if (n < 0)
    return file_error(file);
  std::string_view text(buffer.data(), static_cast<std::size_t>(n));
  if (text.ends_with('\n'))
    text.remove_suffix(1);
  if (text.ends_with('\r'))
    text.remove_suffix(1);
  if (!is_key(text)) {
    return fail(Errc::parse, fmt::format("{}: holds no key, which is one line of {} characters",
                                         file.string(), kKeyCharacters));
  }
  return std::string(text);
}

Result<void> write_key(const std::filesystem::path& file, const std::string& key, mode_t mode) {
  const Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (fd.get() < 0)
    return file_error(file);
  const std::string line = key + "\n";
  // The umask may have taken bits away from the mode; it never adds any.
  const bool written =
      write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      fchmod(fd.get(), mode) == 0 && fsync(fd.get()) == 0;
  if (written)
    return {};
  auto error = file_error(file);
  unlink(file.c_str());
  return error;
}

std::filesystem::path public_file(const std::filesystem::path& file) {
  return file.string() + ".pub";
}

// Adds a folder's key files, in the order of their names.
Result<void> list_keys(const std::filesystem::path& folder, KeyRole role,
                       std::vector<std::pair<std::filesystem::path, KeyRole>>& out) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    // Editors and copies leave hidden files behind, for a moment or for ever.
    if (name.ends_with(".pub") && !name.starts_with('.'))
      files.push_back(it->path());
  }
  if (error) {
    const Errc code = error == std::errc::permission_denied           ? Errc::permission
                      : error == std::errc::no_such_file_or_directory ? Errc::not_found
                                                                      : Errc::io;
    return fail(code, fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::ranges::sort(files);
  for (auto& file : files)
    out.emplace_back(std::move(file), role);
  return {};
}

}  // namespace

bool is_key(std::string_view text) {
  constexpr std::string_view kZ85 =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  if (text.size() != kKeyCharacters || text.find_first_not_of(kZ85) != std::string_view::npos)
    return false;
  std::array<std::uint8_t, kKeyBytes> bytes{};
  return zmq_z85_decode(bytes.data(), std::string(text).c_str()) != nullptr;
}

Result<KeyPair> generate_keys() {
  std::array<char, kKeyCharacters + 1> public_key{};
  std::array<char, kKeyCharacters + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return fail(Errc::unsupported, fmt::format("cannot make a key: {}", zmq_strerror(zmq_errno())));
  }
  return KeyPair{public_key.data(), secret_key.data()};
}

Result<void> write_keys(const KeyPair& keys, const std::filesystem::path& file) {
  // The secret half first: it is the one that must not be lost by being there already.
  if (auto ok = write_key(file, keys.secret_key, 0600); !ok)
    return ok;
  auto ok = write_key(public_file(file), keys.public_key, 0644);
  if (!ok)
    unlink(file.c_str());
  return ok;
}

Result<KeyPair> load_keys(const std::filesystem::path& file) {
  auto secret_key = read_key(file, true);
  if (!secret_key)
    return tl::unexpected(secret_key.error());
  std::array<char, kKeyCharacters + 1> public_key{};
  if (zmq_curve_public(public_key.data(), secret_key->c_str()) != 0) {
    return fail(Errc::unsupported, fmt::format("{}: {}", file.string(), zmq_strerror(zmq_errno())));
  }
  return KeyPair{public_key.data(), std::move(*secret_key)};
}

Result<std::string> load_public_key(const std::filesystem::path& file) {
  return read_key(file, false);
}

std::filesystem::path role_folder(const std::filesystem::path& folder, KeyRole role) {
  return role == KeyRole::unstated ? folder : folder / (std::string(to_string(role)) + "s");
}

Result<AuthorisedKeys> load_authorised_keys(const std::filesystem::path& folder) {
  std::vector<std::pair<std::filesystem::path, KeyRole>> files;
  std::error_code error;
  const bool stated =
      std::filesystem::is_directory(role_folder(folder, KeyRole::operator_key), error);
  if (auto listed = list_keys(folder, stated ? KeyRole::agent_key : KeyRole::unstated, files);
      !listed)
    return tl::unexpected(listed.error());
  AuthorisedKeys keys;
  for (const KeyRole role : {KeyRole::agent_key, KeyRole::operator_key, KeyRole::viewer_key})
    if (auto listed = list_keys(role_folder(folder, role), role, files);
        !listed && listed.error().code != Errc::not_found)
      keys.problems.push_back(listed.error().message);

  std::map<std::string, std::filesystem::path> file_of;
  std::set<std::string> claimed_twice;
  for (const auto& [file, role] : files) {
    const auto key = load_public_key(file);
    if (!key) {
      keys.problems.push_back(key.error().message);
      continue;
    }
    const auto [first, fresh] = file_of.try_emplace(*key, file);
    if (fresh) {
      keys.owners[*key] = {.name = file.stem().string(), .role = role};
    } else {
      keys.problems.push_back(fmt::format("{}: holds the same key as {}; neither is authorised",
                                          file.string(), first->second.string()));
      claimed_twice.insert(*key);
    }
  }
  for (const std::string& key : claimed_twice)
    keys.owners.erase(key);
  return keys;
}

}  // namespace heddle
