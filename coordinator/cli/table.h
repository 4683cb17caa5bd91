// Aligned columns of text, coloured if asked. What comes from elsewhere (names, reasons of agents)
// is made harmless for a terminal here, where all of it passes. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

enum class Tone : std::uint8_t { plain, strong, good, warning, bad, faint };

struct Cell {
  std::string text;
  Tone tone{Tone::plain};
};

// Control characters, and bytes that are not UTF-8, become '?', so that no text moves the cursor or
// makes another line.
std::string harmless(std::string_view text);

// The text in its tone; only the text if not coloured.
std::string painted(std::string_view text, Tone tone, bool colour);

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align{Align::left};
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  // Whether any cell is just this text.
  bool has(std::string_view text) const;
  // A line of titles and one for each row, two blanks between columns, none at line ends.
  std::string text(bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace heddle
