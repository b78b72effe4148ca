#include "eval/neighbours/neighbours_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "eval/neighbours/neighbours.h"
#include "eval/neighbours/neighbours_json.h"
#include "eval/progress.h"
#include "eval/report/claims_neighbours.h"
#include "eval/report/neighbours_view.h"
#include "eval/run/eval_command.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

struct Flags {
  std::string text = "bible";
  int32_t tokens = 4096;
  ReferencePlan plan;
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--text", flags.text, "bible, gpl, or a file")->capture_default_str();
  app.add_option("--tokens", flags.tokens, "tokens of the text that are read")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  app.add_option("--stride", flags.plan.stride, "every N-th token is a reference")
      ->check(CLI::Range(2, kMaxStride))
      ->capture_default_str();
  app.add_option("--neighbours", flags.plan.neighbours, "references that a token is set against")
      ->check(CLI::Range(1, kMostNeighbours))
      ->capture_default_str();
  app.add_option("--sinks", flags.plan.n_sinks, "first tokens, which are references too")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
}

// Layers that a run left, by number; those of an interrupted one are not measured again.
std::set<int32_t> done_layers(const RunFile& file, int32_t n_layers) {
  std::set<int32_t> done;
  for (int32_t layer = 0; layer < n_layers; ++layer) {
    if (file.find(std::to_string(layer)) != nullptr) done.insert(layer);
  }
  return done;
}

Result<void> measure_layers(const std::shared_ptr<llama_model>& model, const SessionParams& params,
                            std::span<const llama_token> tokens, const ReferencePlan& plan,
                            RunFile& file) {
  const int32_t n_layers = llama_model_n_layer(model.get());
  Progress progress(n_layers);
  progress.advance(0, "reading the text");
  auto last = std::chrono::steady_clock::now();
  return run_neighbours(model, params, tokens, plan, done_layers(file, n_layers),
                        [&](const LayerFigures& figures) -> Result<void> {
                          const auto now = std::chrono::steady_clock::now();
                          const std::chrono::duration<double> taken = now - last;
                          last = now;
                          progress.advance(1, "looking for neighbours");
                          return file.add(std::to_string(figures.layer), layer_json(figures),
                                          taken.count());
                        });
}

Json result_of(const EvalCommand& command, const Flags& flags, int32_t n_layers,
               const RunFile& file, double seconds) {
  Json json = command.head(seconds);
  json["text"] = {{"name", flags.text}, {"tokens", flags.tokens}, {"prefix", flags.tokens}};
  json["references"] = {{"stride", flags.plan.stride},
                        {"neighbours", flags.plan.neighbours},
                        {"sinks", flags.plan.n_sinks}};
  json["model_layers"] = n_layers;
  json["distance_ends"] = distance_ends_json();
  json["directions"] = directions_json();
  json["layers"] = Json::array();
  for (const int32_t layer : done_layers(file, n_layers)) {
    json["layers"].push_back(*file.find(std::to_string(layer)));
  }
  return json;
}

// One line of the table: a layer, or the mean of all.
void print_layer(const std::string& name, const Json& layer) {
  const auto far = [&](const char* of) { return 100 * far_share(layer, of); };
  const auto ratio = [&](const char* kind, const char* part = "whole") {
    return ratio_of(layer, kind, part);
  };
  std::printf("%5s%6.1f%6.1f%7.1f |", name.c_str(), far("earlier"), far("reference"),
              far("references"));
  std::printf("%5.2f%6.2f%6.2f%7.2f |", ratio("nearest"), ratio("mean"), ratio("local"),
              ratio("random"));
  std::printf("%5.2f%6.2f |%5.2f%6.2f |", ratio("nearest", "k"), ratio("mean", "k"),
              ratio("nearest", "v"), ratio("mean", "v"));
  std::printf("%6.1f%6.1f |%5.1f\n", effective_rank(layer, "tokens", true),
              effective_rank(layer, "residuals", true),
              100 * layer.at("k_share").at("nearest").get<double>());
}

// Share of distances by bin, all layers together.
void print_distances(const Json& result) {
  std::printf("\n%-32s", "tokens away, % of them");
  for (const std::string& bin : distance_bins(result)) std::printf("%10s", bin.c_str());
  const Json mean = mean_layer(result);
  const auto print_of = [&](const char* name, const char* of) {
    std::printf("\n%-32s", name);
    for (const double share : distance_shares(mean, of)) std::printf("%10.1f", 100 * share);
  };
  print_of("nearest of all earlier tokens", "earlier");
  print_of("nearest reference", "reference");
  print_of("k nearest references", "references");
  std::printf("\n");
}

// Words of a text in lines of at most 96 columns, each behind an indent of 4.
void print_paragraph(const std::string& text) {
  std::istringstream words(text);
  size_t column = 0;
  for (std::string word; words >> word; column += word.size() + 1) {
    if (column == 0 || (column + word.size() > 92 && word != "%")) {
      std::printf("%s   ", column == 0 ? "" : "\n");
      column = 0;
    }
    std::printf(" %s", word.c_str());
  }
  std::printf("\n");
}

void print(const Json& result) {
  std::printf("      > 16 tokens away, %% | |x - m| / |x|, m the:   | of K half  | of V half  |");
  std::printf(
      " eff. rank,  | K in\nlayer  all 1 ref k refs |near  mean local random |near  mean |");
  std::printf("near  mean |    x x - m c| d^2 %%\n");
  for (const Json& layer : result.at("layers")) {
    print_layer(std::to_string(layer.at("layer").get<int>()), layer);
  }
  print_layer("mean", mean_layer(result));
  print_distances(result);
  for (const Claim& claim : neighbours_claims(result)) {
    std::printf("\n%s\n  %s\n", claim.text.c_str(), verdict_text(claim.verdict));
    print_paragraph("published: " + claim.published);
    print_paragraph("here: " + claim.measured);
    print_paragraph("judged " + claim.reason);
  }
}

// The tokens, or one line about what does not fit.
Result<std::vector<llama_token>> tokens_of(const Flags& flags, const llama_vocab* vocab) {
  if (flags.tokens < flags.plan.n_sinks + 2) {
    return Error{"--sinks " + std::to_string(flags.plan.n_sinks) +
                 ": expected at least two less than --tokens " + std::to_string(flags.tokens)};
  }
  return first_tokens(vocab, flags.text, flags.tokens);
}

}  // namespace

int neighbours_command(const std::vector<std::string>& args) {
  EvalCommand command(
      "neighbours",
      "DeltaKV's observations: where tokens that are alike lie, and what is left of "
      "a token without them",
      "smollm2-f16");
  Flags flags;
  add_flags(command.app(), flags);
  if (auto code = command.parse(args)) return *code;
  if (command.compares()) {
    return command.complain("no --kv-* flags here: the full cache is looked at", kUsage);
  }
  auto model = command.load();
  if (!model) return command.complain(model.error(), kUsage);
  auto tokens = tokens_of(flags, llama_model_get_vocab(model.value().get()));
  if (!tokens) return command.complain(tokens.error(), kUsage);
  Json identity = command.identity();
  identity["plan"] = {flags.text, flags.tokens, flags.plan.stride, flags.plan.neighbours,
                      flags.plan.n_sinks};
  const int32_t n_layers = llama_model_n_layer(model.value().get());
  return command.carry_out(
      identity,
      [&](RunFile& file) {
        return measure_layers(model.value(), command.session_params(0), tokens.value(), flags.plan,
                              file);
      },
      [&](const RunFile& file, double seconds) {
        return result_of(command, flags, n_layers, file, seconds);
      },
      print);
}

}  // namespace kvasir::eval
