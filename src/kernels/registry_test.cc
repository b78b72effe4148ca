// Which tables there are, how they are found, and that no test leaves one out.
#include <set>
#include <tuple>

#include "kernels/reference/reference.h"
#include "kernels/test_support.h"

namespace kvasir {
namespace {

// What cpuid says, by the compiler's own reading of it. On other processors: what is compiled.
std::vector<std::string> expected_names() {
  std::vector<std::string> names{"reference"};
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  if (avx2) names.emplace_back("avx2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
    names.emplace_back("avx512");
    const bool vnni = __builtin_cpu_supports("avx512vnni");
    if (vnni) names.emplace_back("avx512_vnni");
    if (vnni && __builtin_cpu_supports("avx512bf16")) names.emplace_back("avx512_bf16");
  }
#elif defined(__aarch64__)
  names.emplace_back("neon");
#endif
  return names;
}

TEST(Registry, HoldsTheTablesOfThisCpuSlowestFirst) {
  std::vector<std::string> names;
  for (const KvKernels* table : supported_kernels()) names.emplace_back(table->name);
  EXPECT_EQ(names, expected_names());
  EXPECT_EQ(supported_kernels().front(), &reference::table());
  EXPECT_EQ(&best_kernels(), supported_kernels().back());
}

TEST(Registry, FindsWhatIsNamedAndNothingElse) {
  for (const KvKernels* table : supported_kernels()) {
    EXPECT_EQ(find_kernels(table->name), table);
    EXPECT_EQ(find_kernels(std::string(table->name) + "x"), nullptr);
  }
  EXPECT_EQ(find_kernels(""), nullptr);
  EXPECT_EQ(find_kernels("Reference"), nullptr);
}

TEST(Registry, EveryEntryOfATableIsItsOwn) {
  std::set<std::tuple<decltype(KvKernels::attend_page), decltype(KvKernels::attend_coded),
                      decltype(KvKernels::attend_page_bf16)>>
      attend;
  for (const KvKernels* table : supported_kernels()) {
    ASSERT_NE(table->attend_page, nullptr);
    ASSERT_NE(table->store_k, nullptr);
    ASSERT_NE(table->store_v, nullptr);
    ASSERT_NE(table->add_mass, nullptr);
    ASSERT_NE(table->logit_sums, nullptr);
    ASSERT_NE(table->unpack_rows, nullptr);
    attend.insert({table->attend_page, table->attend_coded, table->attend_page_bf16});
  }
  EXPECT_EQ(attend.size(), supported_kernels().size());
}

// Every parameterised suite of this program runs on every table (AgainstReference on all but one):
// an empty or partial list of parameters fails here.
TEST(Registry, NoTableIsLeftUntested) {
  const auto* unit_test = ::testing::UnitTest::GetInstance();
  int suites = 0;
  for (int i = 0; i < unit_test->total_test_suite_count(); ++i) {
    const ::testing::TestSuite* suite = unit_test->GetTestSuite(i);
    if (std::string(suite->name()).find("Tables/") != 0) continue;
    ++suites;
    std::set<std::string> tested;
    for (int t = 0; t < suite->total_test_count(); ++t) {
      const std::string name = suite->GetTestInfo(t)->name();
      tested.insert(name.substr(name.find('/') + 1));
    }
    if (std::string(suite->name()) == "Tables/AgainstReference") tested.insert("reference");
    const auto expected = expected_names();
    EXPECT_EQ(tested, std::set<std::string>(expected.begin(), expected.end())) << suite->name();
  }
  const int fast_suites = supported_kernels().size() > 1 ? 1 : 0;
  EXPECT_EQ(suites, fast_suites + 11) << "AttendCoded, AttendPage, AttendPages, DotRows, "
                                         "RestoreRow, StoreRows, AddMass, LogitSums, "
                                         "TurnRow, UnpackRows, ScoreSketch";
}

}  // namespace
}  // namespace kvasir
