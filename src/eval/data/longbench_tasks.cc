#include "eval/data/longbench_tasks.h"

#include <algorithm>
#include <array>

namespace kvasir::eval {
namespace {

constexpr std::string_view kStory =
    "Below is a story, taken from a book or a film script. One question about it follows.\n\n"
    "{context}\n\n"
    "The story ends here. Reply to the question with a few words, and with nothing else.\n\n"
    "Question: {input}\nAnswer:";
constexpr std::string_view kPaper =
    "Below is a scientific paper. One question about it follows.\n\n"
    "{context}\n\n"
    "The paper ends here. Reply with a phrase or one sentence taken from what it says. Where yes "
    "or "
    "no is the answer, say only that; where the paper does not tell, say \"unanswerable\".\n\n"
    "Question: {input}\nAnswer:";
constexpr std::string_view kText =
    "Below is a text. One question about it follows.\n\n"
    "{context}\n\n"
    "The text ends here. Reply to the question with the bare answer.\n\n"
    "Question: {input}\nAnswer:";
constexpr std::string_view kTextZh =
    "下面是一篇文章，文章之后有一个问题。\n\n{context}\n\n"
    "文章到此结束。请用中文简短作答，只写答案。\n\n问题：{input}\n答案：";
constexpr std::string_view kPassages =
    "Below are several passages. One question follows, which may need more than one of them.\n\n"
    "{context}\n\n"
    "The passages end here. Reply to the question with the bare answer.\n\n"
    "Question: {input}\nAnswer:";
constexpr std::string_view kPassagesZh =
    "下面是若干篇文章，之后有一个问题。\n\n{context}\n\n"
    "文章到此结束。请根据这些文章回答问题。\n\n问题：{input}\n答案：";
constexpr std::string_view kReport =
    "Below is a report of a public authority.\n\n{context}\n\n"
    "The report ends here. Sum it up on one page.\n\nSummary:";
constexpr std::string_view kMeeting =
    "Below is what was said at a meeting. A request about it follows.\n\n{context}\n\n"
    "The meeting ends here. Reply to the request in a few sentences.\n\n"
    "Request: {input}\nReply:";
constexpr std::string_view kNews =
    "Below are news reports about one subject.\n\n{context}\n\n"
    "The reports end here. Sum all of them up on one page.\n\nSummary:";
constexpr std::string_view kMeetingZh =
    "下面是一次会议的记录。\n\n{context}\n\n记录到此结束。请写一段话概括会议内容。\n\n概括：";
constexpr std::string_view kTypes =
    "Each question below is followed by its type. Give the type of the last one.\n\n"
    "{context}\n{input}";
constexpr std::string_view kExamples =
    "Below are passages with questions and their answers. Answer the last question in the same "
    "way, "
    "with the bare answer.\n\n{context}\n\n{input}";
constexpr std::string_view kDialogues =
    "Below are dialogues with their summaries. Sum up the last dialogue in the same way.\n\n"
    "{context}\n\n{input}";
constexpr std::string_view kClassesZh =
    "下面每条新闻之后是它的类别。请给出最后一条新闻的类别。\n\n{context}\n{input}";
constexpr std::string_view kCount =
    "Below are numbered paragraphs. Some of them occur more than once.\n\n{context}\n\n"
    "The paragraphs end here. How many different ones are there? Reply with the number alone.\n\n"
    "Number:";
constexpr std::string_view kFind =
    "Below are 30 numbered paragraphs. The summary of one of them follows.\n\n{context}\n\n"
    "The paragraphs end here. Which one does this summary describe?\n\n{input}\n\n"
    "Reply in the form \"Paragraph 1\".\n\nReply:";
constexpr std::string_view kFindZh =
    "下面是若干个编号的段落，之后是其中一段的摘要。\n\n{context}\n\n"
    "段落到此结束。下面的摘要说的是哪一段？\n\n{input}\n\n请按“段落1”的格式作答。\n\n答案：";
constexpr std::string_view kNextLine =
    "Below is the beginning of a file of code. Write the line that comes next.\n"
    "{context}The next line:\n";
constexpr std::string_view kNextLineOfMany =
    "Below are parts of a repository and the beginning of one more file. Write the line that comes "
    "next in it.\n{context}{input}The next line:\n";

constexpr std::array<LongBenchTask, 21> kTasks = {{
    {"narrativeqa", "f1", 128, false, true, false, kStory},
    {"qasper", "f1", 128, true, true, false, kPaper},
    {"multifieldqa_en", "f1", 64, true, true, false, kText},
    {"multifieldqa_zh", "f1_zh", 64, false, true, false, kTextZh},
    {"hotpotqa", "f1", 32, true, true, false, kPassages},
    {"2wikimqa", "f1", 32, true, true, false, kPassages},
    {"musique", "f1", 32, false, true, false, kPassages},
    {"dureader", "rouge_l_zh", 128, false, true, false, kPassagesZh},
    {"gov_report", "rouge_l", 512, true, true, false, kReport},
    {"qmsum", "rouge_l", 512, false, true, false, kMeeting},
    {"multi_news", "rouge_l", 512, true, true, false, kNews},
    {"vcsum", "rouge_l_zh", 512, false, true, false, kMeetingZh},
    {"trec", "class_match", 64, true, false, true, kTypes},
    {"triviaqa", "f1", 32, true, false, true, kExamples},
    {"samsum", "rouge_l", 128, true, false, true, kDialogues},
    {"lsht", "class_match", 64, false, false, true, kClassesZh},
    {"passage_count", "count", 32, true, true, false, kCount},
    {"passage_retrieval_en", "retrieval", 32, true, true, false, kFind},
    {"passage_retrieval_zh", "retrieval_zh", 32, false, true, false, kFindZh},
    {"lcc", "code_edit", 64, true, false, false, kNextLine},
    {"repobench-p", "code_edit", 64, true, false, false, kNextLineOfMany},
}};

}  // namespace

std::span<const LongBenchTask> longbench_tasks() { return kTasks; }

const LongBenchTask* find_longbench_task(std::string_view name) {
  const auto found = std::find_if(kTasks.begin(), kTasks.end(),
                                  [&](const LongBenchTask& task) { return task.name == name; });
  return found == kTasks.end() ? nullptr : &*found;
}

}  // namespace kvasir::eval
