#include "live_rows.h"

#include <cstring>
#include <string>

namespace kvasir::eval {
namespace {

constexpr uint16_t kMagnitude = 0x7FFF;
constexpr uint16_t kInfinity = 0x7C00;

template <typename T>
T read(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}

// The tokens of one block of rows that are not NaN.
std::vector<int32_t> held(const uint8_t* rows, int32_t n_tokens, size_t row_bytes) {
  std::vector<int32_t> positions;
  for (int32_t token = 0; token < n_tokens; ++token) {
    const auto first = read<uint16_t>(rows + static_cast<size_t>(token) * row_bytes);
    if ((first & kMagnitude) <= kInfinity) positions.push_back(token);
  }
  return positions;
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> live_positions(Session& session, int32_t n_tokens,
                                                         int32_t row_elements) {
  llama_context* context = session.context();
  std::vector<uint8_t> state(llama_state_seq_get_size(context, 0));
  const size_t size = llama_state_seq_get_data(context, state.data(), state.size(), 0);
  const size_t row_bytes = static_cast<size_t>(row_elements) * sizeof(uint16_t);
  const size_t head = sizeof(int32_t) + sizeof(uint64_t);  // type, bytes of a row
  const size_t block = head + static_cast<size_t>(n_tokens) * row_bytes;
  const auto n_layers = static_cast<size_t>(llama_model_n_layer(llama_get_model(context)));
  if (size < n_layers * block) return Error{"the saved state is too short"};

  std::vector<std::vector<int32_t>> live;
  for (size_t layer = 0; layer < n_layers; ++layer) {
    const uint8_t* at = state.data() + size - (n_layers - layer) * block;
    if (read<int32_t>(at) != GGML_TYPE_F16 ||
        read<uint64_t>(at + sizeof(int32_t)) != uint64_t{row_bytes}) {
      return Error{"no V block of layer " + std::to_string(layer) + " in the saved state"};
    }
    live.push_back(held(at + head, n_tokens, row_bytes));
  }
  return live;
}

}  // namespace kvasir::eval
