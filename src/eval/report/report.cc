#include "eval/report/report.h"

#include "eval/report/assets.h"
#include "eval/report/figures.h"
#include "eval/report/html.h"
#include "eval/report/losses.h"
#include "eval/report/numbers.h"
#include "eval/report/result_view.h"
#include "eval/report/results.h"
#include "eval/report/tables.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownGroups = 8;

std::string name_of(const ReportOptions& options, size_t i) {
  return i < options.names.size() ? options.names[i] : "result " + std::to_string(i + 1);
}

std::string text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Whether one text was read: fidelity always, premise where the file says which.
bool has_text(const Json& result) {
  const auto text = result.find("text");
  return !has_scores(result) && text != result.end() && text->is_object();
}

/// What a section is about: "fidelity: llama-1b on kjv".
std::string heading_of(const Json& result) {
  std::string heading = kind_of(result) + ": " + text_field(result.at("model"), "name");
  if (has_text(result)) heading += " on " + text_field(result.at("text"), "name");
  return heading;
}

std::string facts_of(const Json& result, const std::string& name) {
  const Json& model = result.at("model");
  const Json& machine = result.at("machine");
  std::string html = "<dl class=\"facts\">\n";
  const auto add = [&](const char* what, const std::string& value) {
    if (value.empty()) return;
    html += "<dt>" + std::string(what) + "</dt><dd>" + escape_html(value) + "</dd>\n";
  };
  add("file", name);
  std::string described = text_field(model, "description");
  if (const double bytes = number_or(model, "bytes", 0); bytes > 0) {
    described += (described.empty() ? "" : ", ") + mib_text(bytes) + " MiB";
  }
  add("model", text_field(model, "name") + (described.empty() ? "" : " (" + described + ")"));
  add("command", "kvasir " + words_text(result.at("command")));
  std::string cpu = text_field(machine, "cpu");
  if (const double threads = number_or(machine, "threads", 0); threads > 0) {
    cpu += ", " + count_text(threads) + (threads == 1 ? " thread" : " threads");
  }
  const std::string kernels = text_field(machine, "kernels");
  add("machine", cpu + (kernels.empty() ? "" : ", kernels " + kernels));
  add("began",
      text_field(result, "began") + ", took " + duration_text(result.at("seconds").get<double>()));
  if (has_text(result)) {
    const Json& text = result.at("text");
    add("text", text_field(text, "name") + ": " + count_text(number_or(text, "tokens", 0)) +
                    " tokens, the first " + count_text(number_or(text, "prefix", 0)) +
                    " as a prompt");
  }
  add("version", text_field(result, "kvasir"));
  return html + "</dl>\n";
}

void add_losses(std::string& html, const char* heading, const std::vector<std::string>& losses,
                size_t shown) {
  if (losses.empty()) return;
  html += "<h4>" + std::string(heading) + "</h4>\n<ul>\n";
  for (size_t i = 0; i < losses.size() && i < shown; ++i) {
    html += "<li>" + escape_html(losses[i]) + "</li>\n";
  }
  if (losses.size() > shown) {
    html +=
        "<li>and " + std::to_string(losses.size() - shown) + " more, in the table of groups</li>\n";
  }
  html += "</ul>\n";
}

std::string losses_section(std::span<const Json> results) {
  std::string html = "<section id=\"losses\">\n<h2>Where it loses</h2>\n";
  for (const Json& result : results) {
    const Losses losses = find_losses(result);
    html += "<h3>" + escape_html(heading_of(result)) + "</h3>\n";
    if (losses.empty()) html += "<p>Nothing, by the rules below.</p>\n";
    add_losses(html, "Scores below the reference", losses.scores, losses.scores.size());
    add_losses(html, "Groups below the reference", losses.groups, kShownGroups);
    add_losses(html, "Others are nearer at equal or fewer bytes", losses.kl, losses.kl.size());
    add_losses(html, "No memory saved", losses.memory, losses.memory.size());
    add_losses(html, "Confidence says nothing sure about the cost of hiding tokens", losses.premise,
               losses.premise.size());
    add_losses(html, "Errors and skipped questions", losses.failures, losses.failures.size());
  }
  return html + "<p class=\"note\">" + escape_html(loss_rules()) + "</p>\n</section>\n";
}

std::string not_reproduced_section(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return "";
  std::string html =
      "<section id=\"not-reproduced\">\n<h2>Published numbers that this run does not "
      "reproduce</h2>\n";
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find("\n\n", from), text.size());
    const std::string paragraph = text.substr(from, end - from);
    if (paragraph.find_first_not_of(" \t\r\n") != std::string::npos) {
      html += "<p>" + escape_html(paragraph) + "</p>\n";
    }
    from = end + 2;
  }
  return html + "</section>\n";
}

/// Figures of one kind that are narrow stand beside one another.
std::string figures_html(const std::vector<Figure>& figures, Json& definitions) {
  std::string html;
  for (size_t i = 0; i < figures.size(); ++i) {
    const Figure& figure = figures[i];
    const bool opens = figure.narrow && (i == 0 || figures[i - 1].kind != figure.kind);
    const bool closes =
        figure.narrow && (i + 1 == figures.size() || figures[i + 1].kind != figure.kind);
    const std::string id = "figure-" + std::to_string(definitions.size() + 1);
    if (opens) html += "<div class=\"multiples " + figure.kind + "\">\n";
    html += "<figure><figcaption>" + escape_html(figure.title) +
            "</figcaption>\n<div class=\"plot\" id=\"" + id + "\" data-kind=\"" + figure.kind +
            "\" role=\"img\" aria-label=\"" + escape_html(figure.title) + "\"></div>\n";
    if (!figure.note.empty()) html += "<p class=\"note\">" + escape_html(figure.note) + "</p>\n";
    html += "</figure>\n";
    if (closes) html += "</div>\n";
    definitions.push_back({{"id", id}, {"kind", figure.kind}, {"data", figure.data}});
  }
  return html;
}

std::string result_section(const Json& result, const std::string& name, Json& definitions) {
  return "<section class=\"result\">\n<h2>" + escape_html(heading_of(result)) + "</h2>\n" +
         facts_of(result, name) + figures_html(make_figures(result), definitions) +
         measures_tables(result) + settings_table(result) + "</section>\n";
}

std::string head_html(const std::string& title) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n"
         // Vega compiles its expressions, hence unsafe-eval; no connection of any kind is allowed.
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
         "'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:\">\n"
         "<link rel=\"icon\" href=\"data:,\">\n<title>" +
         escape_html(title) + "</title>\n<style>\n" + std::string(page_style()) +
         "</style>\n</head>\n<body>\n<main>\n<h1>" + escape_html(title) + "</h1>\n";
}

std::string scripts_html(const Json& definitions) {
  std::string html =
      "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>\n";
  html += "<script type=\"application/json\" id=\"figures\">" + script_json(definitions) +
          "</script>\n";
  for (const std::string_view script : {vega_script(), figures_script(), page_script()}) {
    html += "<script>\n" + escape_script(script) + "</script>\n";
  }
  return html;
}

}  // namespace

Result<std::string> to_html(std::span<const Json> results, const ReportOptions& options) {
  if (results.empty()) return Error{"found no result, expected at least one"};
  for (size_t i = 0; i < results.size(); ++i) {
    const auto checked = check_result(results[i], name_of(options, i));
    if (!checked) return Error{checked.error()};
  }
  Json definitions = Json::array();
  std::string html = head_html(options.title) + losses_section(results);
  for (size_t i = 0; i < results.size(); ++i) {
    html += result_section(results[i], name_of(options, i), definitions);
  }
  html += not_reproduced_section(options.not_reproduced) + "</main>\n";
  return html + scripts_html(definitions) + "</body>\n</html>\n";
}

}  // namespace kvasir::eval
