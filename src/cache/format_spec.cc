#include "cache/format_spec.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace kvasir {
namespace {

using Text = std::string_view;

// Formats that hold K and V together.
struct Together {
  Text name;
  ColdStore store;
};
constexpr std::array kTogether = {Together{"residual", ColdStore::kResidual},
                                  Together{"latent", ColdStore::kLatent}};

const Together* find_together(Text name) {
  const auto* found = std::find_if(kTogether.begin(), kTogether.end(),
                                   [name](const Together& one) { return one.name == name; });
  return found == kTogether.end() ? nullptr : found;
}

Error bad_format(Text text, Text name) {
  std::string known;
  for (const RowFormat& format : row_formats()) {
    known.append(known.empty() ? "" : ", ").append(format.name);
  }
  for (const Together& one : kTogether) known.append(", ").append(one.name);
  std::string message = "--kv-format ";
  message.append(text)
      .append(": no format \"")
      .append(name)
      .append("\"; allowed are ")
      .append(known);
  message.append(", K/V as in int8/int4, and first=N:FORMAT and last=N:FORMAT behind a comma");
  return Error{message};
}

// What stands before `separator`, which leaves `rest` with it; all of it if there is none.
Text take_until(Text& rest, char separator) {
  const size_t at = rest.find(separator);
  const Text part = rest.substr(0, at);
  rest = at == Text::npos ? Text() : rest.substr(at + 1);
  return part;
}

// FORMAT or FORMAT/FORMAT.
Result<RowCodecs> parse_codecs(Text whole, Text text) {
  if (const Together* one = find_together(text)) return RowCodecs{nullptr, nullptr, one->store};
  Text rest = text;
  const Text k_name = take_until(rest, '/');
  const Text v_name = text.find('/') == Text::npos ? k_name : rest;
  const RowFormat* k = find_format(k_name);
  for (const Text name : {k_name, v_name}) {
    if (find_together(name) == nullptr) continue;
    std::string message = "--kv-format ";
    message.append(whole).append(": ").append(name);
    return Error{message.append(" holds K and V together; write it alone")};
  }
  if (k == nullptr) return bad_format(whole, k_name);
  const RowFormat* v = find_format(v_name);
  if (v == nullptr) return bad_format(whole, v_name);
  return RowCodecs{k->k, v->v};
}

Result<void> parse_layers(Text whole, Text part, FormatSpec& spec) {
  Text rest = part;
  const Text which = take_until(rest, '=');
  const Text count = take_until(rest, ':');
  int32_t n = 0;
  const auto [end, code] = std::from_chars(count.data(), count.data() + count.size(), n);
  const bool is_count = code == std::errc() && end == count.data() + count.size() && n > 0;
  if ((which != "first" && which != "last") || !is_count) {
    std::string message = "--kv-format ";
    message.append(whole).append(": found \"").append(part);
    message.append("\"; allowed behind a comma are first=N:FORMAT and last=N:FORMAT, N from 1 on");
    return Error{message};
  }
  Result<RowCodecs> codecs = parse_codecs(whole, rest);
  if (!codecs) return Error{codecs.error()};
  (which == "first" ? spec.n_first : spec.n_last) = n;
  (which == "first" ? spec.first : spec.last) = codecs.value();
  return {};
}

}  // namespace

RowCodecs FormatSpec::of_layer(int32_t index, int32_t n_layers) const {
  if (index < n_first) return first;
  return index >= n_layers - n_last ? last : inner;
}

double demoted_token_bytes(const RowCodecs& codecs, const ResidualParams& residual,
                           int32_t rank_percent, const LayerGeometry& geometry) {
  if (codecs.store == ColdStore::kResidual) {
    return ResidualCodec(residual, geometry).bytes_per_token();
  }
  if (codecs.store == ColdStore::kLatent) {
    return 2.0 *
           (rank_of(geometry.width_k(), rank_percent) + rank_of(geometry.width_v(), rank_percent));
  }
  return geometry.n_kv_heads * (bytes_per_row(codecs.k, geometry.head_dim_k) +
                                bytes_per_row(codecs.v, geometry.head_dim_v));
}

Result<FormatSpec> parse_format(std::string_view text) {
  FormatSpec spec;
  Text rest = text;
  Result<RowCodecs> inner = parse_codecs(text, take_until(rest, ','));
  if (!inner) return Error{inner.error()};
  spec.inner = inner.value();
  while (!rest.empty()) {
    Result<void> layers = parse_layers(text, take_until(rest, ','), spec);
    if (!layers) return Error{layers.error()};
  }
  return spec;
}

}  // namespace kvasir
