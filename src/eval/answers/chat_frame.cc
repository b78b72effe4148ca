#include "eval/answers/chat_frame.h"

#include <array>
#include <exception>

#include "chat.h"

namespace kvasir::eval {
namespace {

constexpr std::array<const char*, 3> kMarks = {"KVASIRMARKONE", "KVASIRMARKTWO", "KVASIRMARKTHREE"};

std::string render(const llama_model* model) {
  const auto templates = common_chat_templates_init(model, "");
  common_chat_templates_inputs inputs;
  const std::array<const char*, 3> roles = {"user", "assistant", "user"};
  for (size_t i = 0; i < kMarks.size(); ++i) {
    common_chat_msg message;
    message.role = roles[i];
    message.content = kMarks[i];
    inputs.messages.push_back(message);
  }
  inputs.add_generation_prompt = true;
  inputs.enable_thinking = false;
  return common_chat_templates_apply(templates.get(), inputs).prompt;
}

}  // namespace

Result<ChatFrame> chat_frame(const llama_model* model) {
  if (llama_model_chat_template(model, nullptr) == nullptr) return ChatFrame{};
  std::string text;
  try {
    text = render(model);
  } catch (const std::exception& error) {
    return Error{std::string("the model's chat template cannot be rendered: ") + error.what()};
  }
  std::array<size_t, 3> at{};
  for (size_t i = 0; i < kMarks.size(); ++i) {
    at[i] = text.find(kMarks[i], i == 0 ? 0 : at[i - 1]);
    if (at[i] == std::string::npos) {
      return Error{"the model's chat template does not show user, assistant, user in order"};
    }
  }
  const auto behind = [&](size_t i) { return at[i] + std::string(kMarks[i]).size(); };
  return ChatFrame{text.substr(0, at[0]), text.substr(behind(2)),
                   text.substr(behind(1), at[2] - behind(1))};
}

}  // namespace kvasir::eval
