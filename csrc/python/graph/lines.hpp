// Lines: what Python says once about a delimited file, for every call on a piece of it.
#pragma once

#include <cstdint>
#include <string>

#include "graph/text/text.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

// How to read a file and where its text starts, shared by every call on one piece of it.
struct Lines {
  std::string name;
  std::string delimiter;
  std::int64_t first_line;
  std::int64_t skip_before;
  bool comments;

  TextPiece piece(const Bytes& text) const {
    const auto* data = reinterpret_cast<const char*>(text.data());
    return {{data, text.shape(0)}, name, first_line, skip_before, one(delimiter), comments};
  }
  static char one(const std::string& delimiter) {
    if (delimiter.size() != 1) throw InputError("the delimiter must be one character");
    return delimiter[0];
  }
};

}  // namespace foregather::python
