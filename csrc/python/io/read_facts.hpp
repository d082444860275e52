// Read facts: what every reader counts, under the same names.
#pragma once

#include "io/reading/reader.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

// Adds requests, bytes, submissions and retries.
inline void tell_reads(Facts& facts, const ReadCounters& counted) {
  facts["requests"] = counted.requests;
  facts["bytes"] = counted.bytes;
  facts["submissions"] = counted.submissions;
  facts["retries"] = counted.retries;
}

}  // namespace foregather::python
