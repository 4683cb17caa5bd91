#include "coordinator/cli/table.h"

#include <algorithm>
#include <utility>

#include "common/core/check.h"

namespace heddle {
namespace {

// Code points, which is what a terminal's columns are for the text that appears here.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The length of the UTF-8 sequence that begins here; 0 if none does.
std::size_t sequence(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  std::size_t length = 0;
  if (first < 0x80)
    length = 1;
  if (first >= 0xC2 && first < 0xE0)
    length = 2;
  if (first >= 0xE0 && first < 0xF0)
    length = 3;
  if (first >= 0xF0 && first < 0xF5)
    length = 4;
  if (length > text.size())
    return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((text[i] & 0xC0) != 0x80)
      return 0;
  return length;
}

const char* escape(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::strong:
      return "\x1b[1m";
    case Tone::good:
      return "\x1b[32m";
    case Tone::warning:
      return "\x1b[33m";
    case Tone::bad:
      return "\x1b[31m";
    case Tone::faint:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

std::string harmless(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence(text);
    const auto first = static_cast<unsigned char>(text.front());
    // 0xC2 0x80 to 0xC2 0x9F are control characters, too; some terminals obey them.
    const bool control =
        first < 0x20 || first == 0x7f ||
        (length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || control)
      out += '?';
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string painted(std::string_view text, Tone tone, bool colour) {
  if (!colour || tone == Tone::plain || text.empty())
    return std::string(text);
  return escape(tone) + std::string(text) + "\x1b[0m";
}

void Table::add(std::vector<Cell> row) {
  HEDDLE_CHECK(row.size() == columns_.size());
  for (Cell& cell : row)
    cell.text = harmless(cell.text);
  rows_.push_back(std::move(row));
}

bool Table::has(std::string_view text) const {
  return std::any_of(rows_.begin(), rows_.end(), [text](const std::vector<Cell>& row) {
    return std::any_of(row.begin(), row.end(),
                       [text](const Cell& cell) { return cell.text == text; });
  });
}

std::string Table::text(bool colour) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = width(columns_[c].title);
    for (const auto& row : rows_)
      widest = std::max(widest, width(row[c].text));
    widths.push_back(widest);
  }
  std::string out;
  const auto line = [&](auto cell_at) {
    std::size_t owed = 0;  // blanks, written only before further text, so that no line ends in them
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Cell cell = cell_at(c);
      const std::size_t fill = widths[c] - width(cell.text);
      if (columns_[c].align == Align::right)
        owed += fill;
      if (!cell.text.empty()) {
        out.append(owed, ' ');
        out += painted(cell.text, cell.tone, colour);
        owed = 0;
      }
      if (columns_[c].align == Align::left)
        owed += fill;
      owed += 2;
    }
    out += '\n';
  };
  line([&](std::size_t c) { return Cell{columns_[c].title, Tone::strong}; });
  for (const auto& row : rows_)
    line([&](std::size_t c) { return row[c]; });
  return out;
}

}  // namespace heddle
