// The attention mass of a call's tokens, from the scores that it kept.
#include <algorithm>

#include "cache/attention_call.h"

namespace kvasir::attention {
namespace {

constexpr int32_t kMassPages = 32;  // pages whose mass is one item of work

void add_mass_of_pages(const Call& call, int32_t stream_index, int32_t first_page,
                       int32_t n_pages) {
  const StreamRows& stream = call.streams[z(stream_index)];
  const ReadOrder& order = stream.order;
  const int32_t n_heads = call.args.n_heads;
  const bool most = stream.mass->heads == HeadReduction::kMax;
  const float weight = most ? 1.0F : 1.0F / static_cast<float>(n_heads);
  const int32_t first = first_page * kPageSlots;
  const int32_t n_places = order.is_identity() ? order.n_slots : order.n_places();
  const int32_t n = std::min(n_pages * kPageSlots, n_places - first);
  float* sum = (order.is_identity() ? stream.mass->mass : stream.mass->places).data() + first;
  for (int32_t h = 0; h < n_heads; ++h) {
    const auto row = z(stream_index * n_heads + h);
    if (!(call.workspace.final_s[row] > 0)) continue;
    float of_head[kMassPages * kPageSlots];
    if (most) std::fill_n(of_head, n, 0.0F);
    call.kernels.add_mass(call.workspace.scores.data() + row * z(call.plan.n_places) + first, n,
                          call.workspace.final_m[row], call.workspace.final_s[row], weight,
                          most ? of_head : sum);
    for (int32_t i = 0; most && i < n; ++i) sum[i] = std::max(sum[i], of_head[i]);
  }
}

void collect_stream(const Call& call, int32_t stream_index, ParallelFor& parallel) {
  const StreamRows& stream = call.streams[z(stream_index)];
  const ReadOrder& order = stream.order;
  StepMass& mass = *stream.mass;
  mass.mass.assign(z(order.n_slots), 0.0F);
  mass.valid = true;
  if (!order.is_identity()) mass.places.assign(z(order.n_places()), 0.0F);
  const int32_t n_pages = order.n_pages();
  parallel.run((n_pages + kMassPages - 1) / kMassPages, [&](int64_t item, int32_t) {
    const int32_t first = static_cast<int32_t>(item) * kMassPages;
    add_mass_of_pages(call, stream_index, first, std::min(kMassPages, n_pages - first));
  });
  if (!order.is_identity()) {
    order.to_slots(std::span<const float>(mass.places), std::span<float>(mass.mass));
  }
}

}  // namespace

// Streams share the workers where there are enough of them, else each is cut.
void collect_mass(const Call& call, ParallelFor& parallel) {
  SerialFor alone;
  const bool one_each = static_cast<int64_t>(call.streams.size()) >= parallel.n_workers();
  ParallelFor& over_streams = one_each ? parallel : alone;
  ParallelFor& inside = one_each ? alone : parallel;
  over_streams.run(static_cast<int64_t>(call.streams.size()), [&](int64_t s, int32_t) {
    if (call.streams[z(s)].mass != nullptr) collect_stream(call, static_cast<int32_t>(s), inside);
  });
}

}  // namespace kvasir::attention
