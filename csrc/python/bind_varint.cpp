#include <cstdint>
#include <limits>
#include <vector>

#include "base/varint.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_varint(nb::module_& m) {
  m.def(
      "encode_varints",
      [](const In<std::int64_t>& values) {
        std::vector<std::uint8_t> made;
        {
          Released released;
          made.reserve(values.shape(0));
          for (const std::int64_t value : view(values)) {
            if (value < 0)
              throw InputError("a message between ranks cannot hold a negative number");
            put_varint(made, static_cast<std::uint64_t>(value));
          }
        }
        return to_numpy(std::move(made));
      },
      nb::arg("values").noconvert(), "The bytes of numbers from 0 on, one after the other.");
  m.def(
      "decode_varints",
      [](const Bytes& message) {
        std::vector<std::int64_t> made;
        {
          Released released;
          VarintReader in({message.data(), message.shape(0)});
          while (in.left() > 0) {
            made.push_back(
                static_cast<std::int64_t>(in.number(std::numeric_limits<std::int64_t>::max())));
          }
        }
        return to_numpy(std::move(made));
      },
      nb::arg("message").noconvert(), "All numbers of a message.");
}

}  // namespace foregather::python
