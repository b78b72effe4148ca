#include "cache/flag_table.h"

#include <array>

#include "cache/flag_options.h"
#include "cache/flag_values.h"

namespace kvasir {
namespace {

using namespace flags;  // NOLINT(google-build-using-namespace): what this table is made of

constexpr auto kFlags = std::to_array<Flag>({
    {{"--kv-policy", "NAME",
      "which tokens stay; none: all; window: the first and the newest; conf: CONF-KV, budget from "
      "confidence, ranked by attention and recency; conf+: the same with other defaults; the "
      "others "
      "in docs/policies.md",
      "none", ""},  // allowed: the registry's names
     set_policy,
     get_policy},
    {{"--kv-budget", "N",
      "live tokens per layer, sink and protected tokens included; or P%, a share of the tokens "
      "seen "
      "so far; conf: N when unsure, half of it when sure; pyramidkv: mean over the layers",
      "none; all but none, conf and conf+ need it, or --kv-budget-mb",
      "tokens, at least sinks + protect + 1 (conf: twice that, h2o: 2 sinks + 1), or a share up to "
      "100%; refused with none"},
     set_budget,
     get_budget},
    {{"--kv-budget-mb", "M",
      "MiB for the whole cache: all sequences, formats, metadata and workspace; never exceeded, "
      "shared equally, and what a short sequence leaves goes to longer ones; without --kv-budget "
      "it sets the budget too (conf: when unsure, half of it when sure), with it the smaller holds",
      "none",
      "1 or more, with an evicting policy only; too small a cap is refused with the smallest that "
      "works"},
     set_budget_mb,
     get_budget_mb},
    {{"--kv-high", "N", "conf: budget of steps that are sure (c >= tau), the tighter one",
      "half of --kv-budget, else 128", "tokens, at least sinks + protect + 1, at most --kv-low"},
     set_count<&P::high, 1>,
     get_count<&P::high>},
    {{"--kv-low", "N", "conf: budget of steps that are unsure or had no logits",
      "--kv-budget, else 256", "tokens, at least --kv-high"},
     set_count<&P::low, 1>,
     get_count<&P::low>},
    {{"--kv-tau", "X", "conf: confidence from which a step counts as sure", "0.7", "0 to 1"},
     set_fraction<&P::tau>,
     get_fraction<&P::tau>},
    {{"--kv-alpha", "X", "conf: weight of attention against recency; 0 ranks by recency alone",
      "0.65; conf+: 1", "0 to 1"},
     set_fraction<&P::alpha>,
     get_fraction<&P::alpha>},
    {{"--kv-lambda", "X", "conf, attention: share of the past in the moving average of attention",
      "0.9; conf+: 0.97", "0 to 1"},
     set_fraction<&P::lambda>,
     get_fraction<&P::lambda>},
    {{"--kv-protect", "N", "newest tokens that are never evicted",
      "32; 10: scissorhands; 0: window, streaming, tova, keydiff, knorm; half the budget: h2o",
      "0 or more"},
     set_count<&P::protect, 0>,
     get_count<&P::protect>},
    {{"--kv-sinks", "N", "first tokens that are never evicted; the paper of conf keeps none", "4",
      "0 or more"},
     set_count<&P::sinks, 0>,
     get_count<&P::sinks>},
    {{"--kv-pyramid", "BETA,NMIN",
      "deeper layers keep less: layer l of L keeps BETA^(l / L) of the budget, rounded down, but "
      "at "
      "least NMIN; 0.5,96 makes conf CONF-KV-L",
      "off", "BETA above 0 and at most 1; NMIN at least sinks + protect + 1; not with pyramidkv"},
     set_pyramid,
     get_pyramid},
    {{"--kv-heads", "NAME", "how a token's attention in the query heads becomes one number", "mean",
      "mean, max; policies that look at attention"},
     set_heads,
     get_heads},
    {{"--kv-shrink", "D", "conf: a sure step lowers the budget by at most D tokens", "0, at once",
      "0 or more"},
     set_count<&P::shrink, 0>,
     get_count<&P::shrink>},
    {{"--kv-blend", "",
      "conf: the budget lies between low (c = 0) and high (c = 1) in proportion to c", "", ""},
     set_switch<&P::blend>,
     get_switch<&P::blend>},
    {{"--kv-burst", "N", "conf: a layer over its budget gives up N tokens at once", "1",
      "1 or more; sinks + protect + 1 tokens always stay"},
     set_count<&P::burst, 1>,
     get_count<&P::burst>},
    {{"--kv-scale", "NAME", "conf: how attention is scaled before recency is added",
      "minmax; conf+: rank", "minmax, rank, log"},
     set_scale,
     get_scale},
    {{"--kv-values", "", "conf: weighs attention by the norm of the value; conf+ always does", "",
      ""},
     set_switch<&P::values>,
     get_switch<&P::values>},
    {{"--kv-by-age", "", "h2o: divides a token's attention by the number of queries that saw it",
      "", ""},
     set_switch<&P::by_age>,
     get_switch<&P::by_age>},
    {{"--kv-seed", "N", "random: seed of its draws", "0", "0 or more"},
     set_count<&P::seed, 0>,
     get_count<&P::seed>},
    {{"--kv-schedule", "FILE",
      "random, recency, attention: the budgets of a former run step by step, from its --kv-trace",
      "none", "a trace of one stream; instead of --kv-budget"},
     set_schedule,
     get_schedule},
    {{"--kv-preset", "NAME",
      "a named set of these flags, which `kvasir doctor` explains; flags behind it change it",
      "none", "exact, light, balanced, small, paper"},
     set_preset,
     nothing},
    {{"--kv-format", "NAME",
      "how tokens older than the recent window are stored (sink tokens stay f16); K/V apart as in "
      "int8/int4; the first or last N layers differ behind a comma: k5v4,first=2:int8",
      "f16",
      "f16, int8, int8-channel, int4, nf4, kivi4, kivi2, k8v4, k5v4, k4v4, k4v2, k3v2, residual, "
      "latent"},
     set_format,
     get_format},
    {{"--kv-residual", "KEY=VALUE,...",
      "residual (DeltaKV): s: every s-th token is a reference; k: the nearest that a token is a "
      "difference from; bits of it, group: channels of one scale; turn: Hadamard before coding; "
      "refs: how references are stored; choose, metric, per: controls (docs/deltakv.md)",
      "s=10,k=4,bits=4,group=64,turn=on,refs=int8,choose=nearest,metric=full,per=token",
      "s 1 to 128; k 1 to 16; bits 2, 4 or 16; group 32 or 64; turn on or off; refs int8 or f16; "
      "choose nearest, local, random or mean; metric full or halves; per token or head"},
     set_residual,
     get_residual},
    {{"--kv-rank", "P",
      "latent: K and V as coordinates along the P % of axes that the first demoted rows vary along "
      "most, as Palu's low rank",
      "30", "1 to 100"},
     set_rank,
     get_rank},
    {{"--kv-recent", "N", "newest tokens that stay f16; as many more as a format encodes at once",
      "128", "0 or more; with a --kv-format other than f16 or a --kv-select other than dense only"},
     set_recent,
     get_recent},
    {{"--kv-select", "NAME",
      "which stored tokens a decode step reads. dense: all; omnikv: those that a few full layers "
      "look at; quest: pages of 16 whose keys could match; sketch: tokens whose keys, at 2 bits a "
      "channel, match best; sketch16: pages of 16 with such tokens; nothing leaves the cache, "
      "prompts read all",
      "dense",
      "dense, omnikv, quest, sketch, sketch16; policies that do not look at attention, "
      "--kv-positions "
      "original"},
     set_select,
     get_select},
    {{"--kv-keep", "N",
      "tokens that a step reads beside the sinks and the recent window (--kv-recent), or P%, a "
      "share of them",
      "30%", "1 or more, or a share above 0% up to 100%; not with dense"},
     set_keep,
     get_keep},
    {{"--kv-full-layers", "LIST", "layers that read every token: 0,1,2,8,18",
      "omnikv: those in MODEL.kvasir.json (kvasir calibrate), or 0, 1, 2, a quarter and nine "
      "sixteenths of the layers; the others: 0, 1",
      "ascending numbers below the number of layers; with omnikv 0 is among them"},
     set_full_layers,
     get_full_layers},
    {{"--kv-restored", "N",
      "residual and latent with a selection: chosen rows that each layer of a sequence keeps in "
      "f16 for the next step, which chooses most of them again; results are the same",
      "twice as many as a step reads, at most an eighth of the demoted rows; off under "
      "--kv-budget-mb",
      "1 or more, or off"},
     set_restored,
     get_restored},
    {{"--kv-prefill", "MODE",
      "exact: the whole prompt is computed first, eviction starts with the first decoded token; "
      "stream: each chunk of the prompt is cut to the budget, so that peak memory is bounded",
      "exact", "exact, stream; stream where tokens are evicted or demoted only"},
     set_prefill,
     get_prefill},
    {{"--kv-math", "MODE",
      "products of attention. f32: exact to what is stored; bf16: operands of 8 significant bits "
      "for prompts, and queries of 8 bits for rows in a format: faster, and about as exact as int8",
      "f32", "f32, bf16; bf16 where the CPU has AVX512_BF16"},
     set_math,
     get_math},
    {{"--kv-positions", "MODE",
      "original: tokens keep their positions; cache: they count by place in the cache, for texts "
      "longer than the model was trained for",
      "original; streaming: cache", "original, cache; cache with an evicting policy only"},
     set_positions,
     get_positions},
    {{"--kv-trace", "FILE", "appends a JSON line for each step to FILE", "none",
      "a file that can be written"},
     set_trace,
     get_trace},
    {{"--kv-stats", "", "prints statistics at exit", "", ""}, set_stats, get_stats},
});

}  // namespace

std::span<const Flag> flag_table() {
  static const std::string names = [] {
    std::string text;
    for (const Text name : policy_names()) text.append(text.empty() ? "" : ", ").append(name);
    return text;
  }();
  static const auto table = [] {
    auto flags = kFlags;
    flags[0].help.allowed = names;
    return flags;
  }();
  return table;
}

std::span<const FlagHelp> flag_help() {
  static const auto help = [] {
    std::array<FlagHelp, kFlags.size()> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = flag_table()[i].help;
    return all;
  }();
  return help;
}

}  // namespace kvasir
