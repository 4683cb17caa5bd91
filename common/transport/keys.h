// CURVE keys in files. A key file holds one line: the key's 40 characters in Z85. The secret half
// is FILE, for its owner's eyes only; the public half is FILE.pub. Authorised keys are a folder
// with NAME.pub files in its folders agents/, viewers/ and operators/. Any thread; nothing is kept
// open.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/access.h"
#include "common/core/result.h"

namespace heddle {

struct KeyPair {
  std::string public_key;  // Z85
  std::string secret_key;
};

Result<KeyPair> generate_keys();

// Makes FILE (mode 0600) and FILE.pub (0644). Errc::duplicate if either exists: a key is never
// overwritten.
Result<void> write_keys(const KeyPair& keys, const std::filesystem::path& file);

// Reads a secret key and derives its public half. Errc::permission if group or others may read the
// file.
Result<KeyPair> load_keys(const std::filesystem::path& file);

Result<std::string> load_public_key(const std::filesystem::path& file);

// Whether it is a 32-byte key in Z85.
bool is_key(std::string_view text);

// A public key that may connect: whose it is, by its file's name ("leaf1" of leaf1.pub), and what
// it may do, by its folder.
struct KeyOwner {
  std::string name;
  KeyRole role{};
  bool operator==(const KeyOwner&) const = default;
};

struct AuthorisedKeys {
  std::map<std::string, KeyOwner, std::less<>> owners;  // by key
  std::vector<std::string> problems;  // files that were passed over, and why; for the log
};

// The folder of a role within the folder of authorised keys: "agents"; that folder itself for
// `unstated`.
std::filesystem::path role_folder(const std::filesystem::path& folder, KeyRole role);

// Files right in the folder, where earlier versions had all of them, have the role `unstated` until
// there is a folder operators/; from then on they are agents'. So the key of a node that leaves the
// fabric cannot become an operator's.
// Errc::not_found or Errc::permission if the folder cannot be listed. A file that cannot be read,
// or holds no key, or a key that another file holds too (whose is it?), authorises nobody and
// becomes a problem.
Result<AuthorisedKeys> load_authorised_keys(const std::filesystem::path& folder);

}  // namespace heddle
