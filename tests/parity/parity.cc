// kvasir_parity: how far Kvasir is from stock llama.cpp on a text, and how far stock is from
// itself.
//
// One process scores the same tokens under several configurations: stock with flash attention (the
// reference), Kvasir with every token kept, and stock's own other paths (flash attention off,
// ubatch of 64). Most tokens are scored as prompt chunks, the last ones one by one, since decode
// runs other kernels. A bound that is broken gives exit code 1.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "device/device.h"
#include "eval/session.h"
#include "eval/statistics.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

struct Flags {
  std::string model = "smollm2-f16";
  std::string text = "bible";
  int32_t tokens = 2000;
  int32_t decode = 64;
  int32_t n_threads = 2;
  std::string reference = "on";
  bool stock_paths = false;
  bool bound_by_stock = false;
  double max_kl = 2e-5;
  double min_same_top = 0.995;
  double max_perplexity_change = 0.0005;
  double max_flip = 0.1;
};

struct Configuration {
  std::string name;
  Session session;
  Divergence divergence;
};

int32_t chunk_size(const Session& session) { return session.n_batch(); }

Result<Configuration> make(const std::string& name, std::shared_ptr<llama_model> model,
                           const Flags& flags, bool flash_attention, int32_t n_ubatch) {
  SessionParams params;
  params.n_ctx = flags.tokens;
  params.n_threads = flags.n_threads;
  params.flash_attention =
      flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.n_ubatch = n_ubatch;
  auto session = Session::open(std::move(model), params);
  if (!session) return Error{name + ": " + session.error()};
  return Configuration{name, std::move(session.value()), {}};
}

// The reference first, then Kvasir, then stock's other paths if they are wanted.
Result<std::vector<Configuration>> make_all(const Flags& flags) {
  auto path = find_model(flags.model);
  if (!path) return Error{path.error()};
  auto stock = load_model(path.value(), nullptr);
  if (!stock) return Error{stock.error()};
  auto kvasir = load_model(path.value(), device::register_device());
  if (!kvasir) return Error{kvasir.error()};

  std::vector<Configuration> all;
  const auto add = [&](Result<Configuration> one) -> Result<void> {
    if (!one) return Error{one.error()};
    all.push_back(std::move(one.value()));
    return {};
  };
  const bool on = flags.reference == "on";
  Result<void> done =
      add(make(on ? "stock -fa on" : "stock -fa off", stock.value(), flags, on, 512));
  if (done) done = add(make("kvasir", kvasir.value(), flags, true, 512));
  if (done && flags.stock_paths) {
    done = add(make(on ? "stock -fa off" : "stock -fa on", stock.value(), flags, !on, 512));
    if (done) done = add(make("stock -ub 64", stock.value(), flags, on, 64));
  }
  if (!done) return Error{done.error()};
  return all;
}

// Decodes tokens[from, from + count) everywhere and compares each row with the reference's.
Result<void> score(std::vector<Configuration>& all, const std::vector<llama_token>& tokens,
                   int32_t from, int32_t count) {
  const auto part =
      std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(count));
  for (auto& configuration : all) {
    auto done = configuration.session.decode(part, from, Outputs::kAll);
    if (!done) return Error{configuration.name + ": " + done.error()};
  }
  for (int32_t i = 0; i < count; ++i) {
    const size_t next = static_cast<size_t>(from) + static_cast<size_t>(i) + 1;
    if (next == tokens.size()) break;
    const auto reference = all[0].session.logits(i);
    const auto summary = summarize(reference);
    for (size_t k = 1; k < all.size(); ++k) {
      const auto row = all[k].session.logits(i);
      all[k].divergence.add(reference, summary, row, summarize(row), tokens[next]);
    }
  }
  return {};
}

Result<void> score_text(std::vector<Configuration>& all, const Flags& flags) {
  auto text = read_text(flags.text);
  if (!text) return Error{text.error()};
  auto tokens = tokenize(all[0].session.vocab(), text.value(), flags.tokens);
  if (!tokens) return Error{tokens.error()};
  const int32_t prompt = flags.tokens - flags.decode;
  for (int32_t at = 0; at < flags.tokens;) {
    const int32_t count = at < prompt ? std::min(chunk_size(all[0].session), prompt - at) : 1;
    auto done = score(all, tokens.value(), at, count);
    if (!done) return done;
    at += count;
  }
  return {};
}

void print(const std::vector<Configuration>& all, const Flags& flags) {
  printf("%s, %s, %d tokens, %d of them decoded one by one; against %s\n\n", flags.model.c_str(),
         flags.text.c_str(), flags.tokens, flags.decode, all[0].name.c_str());
  printf(
      "| | KL mean | median | 99 %% | same top %% | perplexity | change %% | widest flip nats |\n");
  printf("|---|---:|---:|---:|---:|---:|---:|---:|\n");
  for (size_t k = 1; k < all.size(); ++k) {
    const Divergence& d = all[k].divergence;
    printf("| %s | %.2e | %.2e | %.2e | %.2f | %.4f | %+.4f | %.4f |\n", all[k].name.c_str(),
           d.kl_mean(), d.kl_median(), d.kl_p99(), 100 * d.same_top(), d.perplexity_b(),
           100 * d.perplexity_change(), d.widest_flip());
  }
}

int complain(const char* what, double found, const char* relation, double allowed) {
  fprintf(stderr, "kvasir_parity: %s is %.3g, allowed is %s %.3g\n", what, found, relation,
          allowed);
  return 1;
}

// Zero if Kvasir is within the bounds.
int check(const std::vector<Configuration>& all, const Flags& flags) {
  const Divergence& d = all[1].divergence;
  if (!d.finite()) {
    fprintf(stderr, "kvasir_parity: logits that are not finite\n");
    return 1;
  }
  if (flags.bound_by_stock) {
    // On quantised weights stock differs from itself by as much; more than that is a fault.
    const double floor = std::max(all[2].divergence.kl_mean(), all[3].divergence.kl_mean());
    return d.kl_mean() <= 1.2 * floor ? 0 : complain("mean KL", d.kl_mean(), "<=", 1.2 * floor);
  }
  int failures = 0;
  if (!(d.kl_mean() <= flags.max_kl)) {
    failures += complain("mean KL", d.kl_mean(), "<=", flags.max_kl);
  }
  if (!(d.same_top() >= flags.min_same_top)) {
    failures += complain("same-top share", d.same_top(), ">=", flags.min_same_top);
  }
  if (!(std::abs(d.perplexity_change()) <= flags.max_perplexity_change)) {
    failures += complain("relative change of perplexity", d.perplexity_change(), "within",
                         flags.max_perplexity_change);
  }
  // The greedy choice may only differ where the two best tokens are nearly tied.
  if (!(d.widest_flip() <= flags.max_flip)) {
    failures +=
        complain("margin of a changed greedy choice", d.widest_flip(), "<=", flags.max_flip);
  }
  return failures == 0 ? 0 : 1;
}

int fail(const std::string& message) {
  fprintf(stderr, "kvasir_parity: %s\n", message.c_str());
  return 2;
}

int run(const Flags& flags) {
  set_llama_log(false);
  auto all = make_all(flags);
  if (!all) return fail(all.error());
  auto done = score_text(all.value(), flags);
  if (!done) return fail(done.error());
  print(all.value(), flags);
  return check(all.value(), flags);
}

}  // namespace
}  // namespace kvasir::eval

int main(int argc, char** argv) try {
  kvasir::eval::Flags flags;
  CLI::App app("Kvasir against stock llama.cpp on a text, in one process", "kvasir_parity");
  app.add_option("-m,--model", flags.model)->capture_default_str();
  app.add_option("--text", flags.text, "bible, gpl, or a file")->capture_default_str();
  app.add_option("--tokens", flags.tokens)->check(CLI::Range(2, 1 << 20))->capture_default_str();
  app.add_option("--decode", flags.decode, "how many of them one by one")->capture_default_str();
  app.add_option("-t,--threads", flags.n_threads)->capture_default_str();
  app.add_option("--reference", flags.reference, "stock's flash attention on or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_flag("--stock-paths", flags.stock_paths, "measure stock's other paths as well");
  app.add_flag("--bound-by-stock", flags.bound_by_stock,
               "bound: 1.2 x the larger KL of stock's other paths");
  app.add_option("--max-kl", flags.max_kl)->capture_default_str();
  app.add_option("--min-same-top", flags.min_same_top)->capture_default_str();
  app.add_option("--max-perplexity-change", flags.max_perplexity_change)->capture_default_str();
  app.add_option("--max-flip", flags.max_flip, "nats")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  flags.stock_paths = flags.stock_paths || flags.bound_by_stock;
  flags.decode = std::min(flags.decode, flags.tokens);
  return kvasir::eval::run(flags);
} catch (const std::exception& error) {
  fprintf(stderr, "kvasir_parity: %s\n", error.what());
  return 2;
}
