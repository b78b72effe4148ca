#include "eval/data/fields.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "eval/data/line_reader.h"
#include "eval/data/test_files.h"

namespace kvasir::eval {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  const TemporaryFile file(text);
  auto reader = LineReader::open(file.path());
  EXPECT_TRUE(reader) << reader.error();
  std::vector<std::string> lines;
  std::string line;
  while (reader && reader.value().next(line).value()) lines.push_back(line);
  return lines;
}

TEST(LineReader, GivesEachLine) {
  EXPECT_EQ(lines_of("a\n\nbc"), (std::vector<std::string>{"a", "", "bc"}));
  EXPECT_EQ(lines_of("a\n"), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(lines_of("").empty());
}

TEST(LineReader, JoinsWhatTheBufferCuts) {
  const std::string longer(size_t{3} << 20U, 'x');
  EXPECT_EQ(lines_of(longer + "\nend"), (std::vector<std::string>{longer, "end"}));
}

TEST(LineReader, RefusesALineAboveTheLimit) {
  const TemporaryFile file("1234\n123456\n");
  auto reader = LineReader::open(file.path(), 5);
  ASSERT_TRUE(reader);
  std::string line;
  EXPECT_TRUE(reader.value().next(line).value());
  const auto next = reader.value().next(line);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error(),
            file.path() + ":2: a line of more than 5 bytes, the most that is allowed");
}

TEST(LineReader, TakesALineOfTheLimitAndRefusesOneMore) {
  const TemporaryFile file(std::string(LineReader::kLongestLine, ' ') + "\n" +
                           std::string(LineReader::kLongestLine + 1, ' '));
  auto reader = LineReader::open(file.path());
  ASSERT_TRUE(reader);
  std::string line;
  EXPECT_TRUE(reader.value().next(line));
  EXPECT_EQ(line.size(), size_t{64} * 1024 * 1024);
  EXPECT_FALSE(reader.value().next(line));
}

TEST(LineReader, RefusesWhatIsNoFile) {
  const auto missing = LineReader::open("/nonexistent/data.jsonl");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(),
            "cannot open /nonexistent/data.jsonl: expected a file that can be read");
  auto folder = LineReader::open(testing::TempDir());
  std::string line;
  EXPECT_TRUE(!folder || !folder.value().next(line));
}

// What read_samples says about a file whose samples need the fields that `make` reads.
template <typename Make>
std::string error_of(const std::string& text, Make make) {
  const TemporaryFile file(text);
  const auto samples = read_samples(file.path(), 0, [&](const Fields& fields) -> Result<Sample> {
    const auto value = make(fields);
    if (!value) return Error{value.error()};
    return Sample{};
  });
  EXPECT_FALSE(samples) << text;
  const std::string& error = samples.error();
  EXPECT_EQ(error.find(file.path()), 0U) << error;
  return error.substr(std::min(error.size(), file.path().size()));
}

TEST(Fields, NameWhatIsWrong) {
  const auto text = [](const Fields& fields) { return fields.text({"a"}); };
  const auto filled = [](const Fields& fields) { return fields.filled_text({"a", "b"}); };
  const auto mixed = [](const Fields& fields) { return fields.text_or_number({"a"}); };
  const auto texts = [](const Fields& fields) { return fields.texts("a"); };
  const auto count = [](const Fields& fields) { return fields.count("a"); };
  const auto objects = [](const Fields& fields) { return fields.objects("a"); };
  EXPECT_EQ(error_of("\n{\"a\": 7}", text), ":2: field 'a': found 7, expected a string");
  EXPECT_EQ(error_of("{\"b\": \"\"}", filled),
            ":1: field 'b': found \"\", expected a string that is not empty");
  EXPECT_EQ(error_of("{}", filled),
            ":1: field 'a': found nothing, expected a string that is not empty");
  EXPECT_EQ(error_of("{\"a\": null}", text), ":1: field 'a': found nothing, expected a string");
  EXPECT_EQ(error_of("{\"a\": [1]}", mixed),
            ":1: field 'a': found [1], expected a string that is not empty or a number");
  EXPECT_EQ(error_of("{\"a\": []}", texts),
            ":1: field 'a': found [], expected an array of at least one string");
  EXPECT_EQ(error_of("{\"a\": [\"x\", 1]}", texts),
            ":1: field 'a': found [\"x\",1], expected an array of at least one string");
  for (const char* number : {"-1", "1.5", "18446744073709551615", "\"1\""}) {
    EXPECT_EQ(
        error_of("{\"a\": " + std::string(number) + "}", count),
        ":1: field 'a': found " + std::string(number) + ", expected a whole number from 0 on");
  }
  EXPECT_EQ(error_of("{\"a\": [{}, 1]}", objects),
            ":1: field 'a': found [{},1], expected an array of at least one object");
}

TEST(Fields, NameTheObjectInside) {
  const auto inner = [](const Fields& fields) -> Result<std::string> {
    return fields.objects("turns").value()[1].text({"input"});
  };
  EXPECT_EQ(error_of("{\"turns\": [{\"input\": \"x\"}, {}]}", inner),
            ":1: field 'turns[1].input': found nothing, expected a string");
}

TEST(Fields, ShowTheBeginningOfALongValue) {
  const auto count = [](const Fields& fields) { return fields.count("a"); };
  EXPECT_EQ(
      error_of("{\"a\": \"" + std::string(1000, 'x') + "\"}", count),
      ":1: field 'a': found \"" + std::string(39, 'x') + "..., expected a whole number from 0 on");
}

TEST(ReadSamples, NamesTheLineThatIsNoJson) {
  const auto any = [](const Fields&) -> Result<int> { return 1; };
  EXPECT_EQ(error_of("{}\n{\"a\": }\n", any),
            ":2: not JSON at byte 7, expected a JSON object on each line");
  EXPECT_EQ(error_of("[1]\n", any), ":1: found [1], expected a JSON object");
  EXPECT_EQ(error_of("{\"a\": 1e999}\n", any),
            ":1: a number that is too large, expected a JSON object on each line");
  EXPECT_EQ(error_of(" \n\n", any), " is empty, expected a JSON object on each line");
}

TEST(ReadSamples, StopsAtTheLimitAndKeepsIdsApart) {
  const auto make = [](const Fields& fields) -> Result<Sample> {
    Sample sample;
    sample.task = fields.text({"t"}).value();
    sample.id = "x";
    return sample;
  };
  const TemporaryFile file(
      "{\"t\":\"a\"}\n{\"t\":\"a\"}\n{\"t\":\"b\"}\n{\"t\":\"a\"}\nnot JSON\n");
  const auto samples = read_samples(file.path(), 4, make);
  ASSERT_TRUE(samples) << samples.error();
  std::string ids;
  for (const auto& sample : samples.value()) ids += sample.task + sample.id + " ";
  EXPECT_EQ(ids, "ax ax#2 bx ax#3 ");
  EXPECT_FALSE(read_samples(file.path(), 5, make));
}

}  // namespace
}  // namespace kvasir::eval
