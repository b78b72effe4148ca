#include "eval/agent/words.h"

#include <algorithm>
#include <array>

#include "base/fnv1a.h"

namespace kvasir::eval::agent {
namespace {

using namespace std::string_view_literals;

constexpr std::array kLamps = {"desk lamp"sv, "floor lamp"sv, "reading lamp"sv};
constexpr std::array kKettles = {"kettle"sv, "teapot"sv, "stock pot"sv};
constexpr std::array kBags = {"backpack"sv, "satchel"sv, "travel bag"sv};
constexpr std::array kChairs = {"armchair"sv, "stool"sv, "rocking chair"sv};
constexpr std::array kBlankets = {"blanket"sv, "bedspread"sv, "quilt"sv};
constexpr std::array kClocks = {"wall clock"sv, "alarm clock"sv, "mantel clock"sv};
constexpr std::array kShelves = {"bookcase"sv, "wall shelf"sv, "plant stand"sv};
constexpr std::array kKnives = {"paring knife"sv, "bread knife"sv, "carving knife"sv};

constexpr std::array kHard = {"walnut"sv, "oak"sv, "beech"sv, "maple"sv};
constexpr std::array kMetal = {"steel"sv, "copper"sv, "brass"sv, "enamel"sv};
constexpr std::array kCloth = {"canvas"sv, "linen"sv, "wool"sv, "hemp"sv};

constexpr std::array<CategoryWords, 8> kCategories = {{{"Lamps", kLamps, kMetal},
                                                       {"Kettles", kKettles, kMetal},
                                                       {"Bags", kBags, kCloth},
                                                       {"Chairs", kChairs, kHard},
                                                       {"Blankets", kBlankets, kCloth},
                                                       {"Clocks", kClocks, kMetal},
                                                       {"Shelves", kShelves, kHard},
                                                       {"Knives", kKnives, kMetal}}};

constexpr std::array kShopNames = {"Northgate Traders"sv, "Millrace Goods"sv,
                                   "Harbour and Sons"sv,  "Tallow Street Store"sv,
                                   "Quarry Outfitters"sv, "Lantern Bazaar"sv};
constexpr std::array kBrands = {"Brennock"sv, "Ostrava"sv, "Tillerman"sv,
                                "Vossen"sv,   "Kestrel"sv, "Aldermoor"sv};
constexpr std::array kAdjectives = {"folding"sv, "compact"sv, "sturdy"sv, "slender"sv, "classic"sv,
                                    "rustic"sv,  "quiet"sv,   "handy"sv,  "tall"sv,    "curved"sv};
constexpr std::array kColours = {"red"sv, "green"sv, "blue"sv};
constexpr std::array kCities = {"Aldbury"sv, "Corwen"sv,   "Dunmore"sv, "Eastlake"sv,
                                "Fenwick"sv, "Grantham"sv, "Holmby"sv,  "Isfield"sv,
                                "Kelso"sv,   "Lindale"sv,  "Marlow"sv,  "Oakham"sv};
constexpr std::array kWeekdays = {"Monday"sv,   "Tuesday"sv, "Wednesday"sv,
                                  "Thursday"sv, "Friday"sv,  "Saturday"sv};
constexpr std::array kFirstNames = {"Ada"sv,    "Bruno"sv,   "Clara"sv,  "Dmitri"sv, "Elsa"sv,
                                    "Fergus"sv, "Greta"sv,   "Hugo"sv,   "Ines"sv,   "Jonas"sv,
                                    "Katya"sv,  "Leopold"sv, "Mirela"sv, "Nils"sv,   "Ottoline"sv};
constexpr std::array kFamilyNames = {"Abernathy"sv, "Bellweather"sv, "Castellan"sv, "Drummond"sv,
                                     "Eskdale"sv,   "Fairweather"sv, "Gillespie"sv, "Hawthorn"sv,
                                     "Ironside"sv,  "Jessop"sv,      "Kirkbride"sv, "Lockwood"sv};
constexpr std::array kPlainWords = {"amber"sv,  "basalt"sv, "cedar"sv,   "delta"sv,   "ember"sv,
                                    "fjord"sv,  "garnet"sv, "heather"sv, "indigo"sv,  "juniper"sv,
                                    "kelp"sv,   "lichen"sv, "meadow"sv,  "nectar"sv,  "onyx"sv,
                                    "pebble"sv, "quartz"sv, "rowan"sv,   "saffron"sv, "thistle"sv};

using enum ValueKind;
constexpr std::array<ClauseWords, 4> kReturns = {{{"return period", kDays},
                                                  {"return reason code", kCode},
                                                  {"returns desk officer", kPerson},
                                                  {"return parcel fee", kAmount}}};
constexpr std::array<ClauseWords, 4> kShipping = {{{"customs form number", kCode},
                                                   {"parcel dispatch day", kWeekday},
                                                   {"dispatch city", kCity},
                                                   {"insurance supplement", kAmount}}};
constexpr std::array<ClauseWords, 4> kWarranty = {{{"warranty claim code", kCode},
                                                   {"claims officer", kPerson},
                                                   {"claims city", kCity},
                                                   {"claim period", kDays}}};
constexpr std::array<ClauseWords, 4> kPayment = {{{"invoice reference", kCode},
                                                  {"payment term", kDays},
                                                  {"bank branch city", kCity},
                                                  {"reminder fee", kAmount}}};
constexpr std::array<ClauseWords, 4> kRepairs = {{{"repair ticket number", kCode},
                                                  {"repair workshop city", kCity},
                                                  {"repair closing day", kWeekday},
                                                  {"inspection fee", kAmount}}};
constexpr std::array<ClauseWords, 4> kTerms = {{{"consent phrase", kPhrase},
                                                {"terms version", kCode},
                                                {"court city", kCity},
                                                {"notice period", kDays}}};
constexpr std::array<ClauseWords, 4> kPrivacy = {{{"data officer", kPerson},
                                                  {"privacy file number", kCode},
                                                  {"deletion period", kDays},
                                                  {"privacy password", kPhrase}}};
constexpr std::array<ClauseWords, 4> kPackaging = {{{"packaging mark", kCode},
                                                    {"recycling point city", kCity},
                                                    {"collection day", kWeekday},
                                                    {"box deposit", kAmount}}};
constexpr std::array<TopicWords, 8> kTopics = {{{"returns", "Returns", kReturns},
                                                {"shipping", "Shipping", kShipping},
                                                {"warranty", "Warranty", kWarranty},
                                                {"payment", "Payment", kPayment},
                                                {"repairs", "Repairs", kRepairs},
                                                {"terms", "Terms of use", kTerms},
                                                {"privacy", "Privacy", kPrivacy},
                                                {"packaging", "Packaging", kPackaging}}};

// A sentence is an opening, a middle and an ending. '%' stands for a plain word, '@' for a city,
// '*' for a colour.
constexpr std::array kOpenings = {"In the cold months"sv,
                                  "On most afternoons"sv,
                                  "As a rule"sv,
                                  "To our own surprise"sv,
                                  "Before the first use"sv,
                                  "After a long journey by cart"sv,
                                  "Since last autumn"sv,
                                  "For the time being"sv,
                                  "With a little patience"sv,
                                  "According to the magazine %"sv,
                                  "As visitors to @ will remember"sv,
                                  "Once the paint is dry"sv,
                                  "In good years"sv,
                                  "Every now and then"sv,
                                  "When it rains"sv,
                                  "Between ourselves"sv,
                                  "Thanks to a lucky find in @"sv,
                                  "Whatever the season"sv,
                                  "At the counter in @"sv,
                                  "For all we know"sv,
                                  "If the light is right"sv,
                                  "Unlike the model called %"sv,
                                  "In the words of our carpenter"sv,
                                  "Until further notice"sv};
constexpr std::array kMiddles = {
    "the * finish looks calmer than it does in the pictures"sv,
    "our workshop near @ turns each piece over twice before it leaves the house"sv,
    "the series called % is made in small numbers"sv,
    "the warehouse cat sleeps among the empty boxes"sv,
    "a soft cloth and a little warm water do all the cleaning that is needed"sv,
    "our newsletter tells of new arrivals and the people behind them"sv,
    "the edges are smoothed by hand and the joints are tried one after the other"sv,
    "the old pattern from @ still finds its friends"sv,
    "small differences of shade are part of the character"sv,
    "the opinions of customers are shown in the order in which they arrive"sv,
    "some parts may travel in a separate parcel"sv,
    "a short film shows how the label is sewn in"sv,
    "the wall behind the counter is painted * with a thin border of *"sv,
    "it goes well with the other things of the collection"sv,
    "the printed catalogue devotes a whole chapter to the valley of @"sv,
    "children build towers from what the packers leave behind"sv,
    "a place away from the window is kinder to the surface"sv,
    "the shape once known as % has become a favourite of the house"sv,
    "our neighbours bring cake and stay until the lamps are lit"sv,
    "nothing that scratches or bleaches should come near it"sv,
    "the letters on small screens can be made larger"sv,
    "the apprentices practise on wood that has lain in the yard of @"sv,
    "the colour * was chosen after a vote among the staff"sv,
    "this notice takes the place of an earlier one"sv,
    "people ask for the pattern called %, which is sold out"sv,
    "the bell above the door rings for everyone who enters"sv,
    "each bundle is tied with * string and set upright"sv,
    "the scales in the yard are tested by an inspector from @"sv};
constexpr std::array kEndings = {"and nobody minds"sv,
                                 "which the catalogue explains at length"sv,
                                 "as the founders did on the market of @"sv,
                                 "although tastes differ"sv,
                                 "without any hurry"sv,
                                 "and that is meant to stay so"sv,
                                 "even if the weather turns"sv,
                                 "much to the delight of the packers"sv,
                                 "so that little can go wrong"sv,
                                 "which is no reason for worry"sv,
                                 "as long as it is kept dry"sv,
                                 "and we are a little proud of it"sv,
                                 "whereas the one called % took longer"sv,
                                 "just as it was in the old shop at @"sv,
                                 "for reasons that only the bookkeeper knows"sv,
                                 "and the cat called % agrees"sv,
                                 "with or without the * ribbon"sv,
                                 "until something better comes along"sv};

constexpr std::array kOpinions = {
    "The % looks just as I had hoped and was easy to set up."sv,
    "It took me an evening to get used to the %, but now I would not give it away."sv,
    "My neighbour has the same % and recommended it warmly."sv,
    "The parcel was a little dented, though the % inside was fine."sv,
    "For the price I had expected a somewhat heavier %."sv,
    "I bought a second % for my sister, who lives by the sea."sv,
    "The % does what it should, no more and no less."sv,
    "After some months the % still looks new, even though we use it daily."sv};

std::string filled(std::string_view pattern, Random& random) {
  std::string text;
  while (!pattern.empty()) {
    const size_t plain = std::min(pattern.find_first_of("%@*"), pattern.size());
    text.append(pattern.substr(0, plain));
    if (plain == pattern.size()) break;
    const char slot = pattern[plain];
    text.append(slot == '%'   ? random.pick(kPlainWords)
                : slot == '@' ? random.pick(kCities)
                              : random.pick(kColours));
    pattern.remove_prefix(plain + 1);
  }
  return text;
}

std::string sentence(Random& random) {
  std::string text = filled(random.pick(kOpenings), random);
  text.append(", ").append(filled(random.pick(kMiddles), random));
  if (random.below(4) > 0) text.append(", ").append(filled(random.pick(kEndings), random));
  return text.append(".");
}

std::string sentences(size_t count, Random& random) {
  std::string text = sentence(random);
  for (size_t i = 1; i < count; ++i) text.append(" ").append(sentence(random));
  return text;
}

std::string person(Random& random) {
  const std::string first(random.pick(kFirstNames));
  return first + " " + std::string(random.pick(kFamilyNames));
}

}  // namespace

uint64_t seed_of(uint64_t seed, std::string_view name) {
  uint64_t hash = fnv1a(name, kFnv1aStart ^ (seed * 0x9E3779B97F4A7C15ULL));
  hash ^= hash >> 31;
  return hash * 0xBF58476D1CE4E5B9ULL;
}

std::span<const CategoryWords> category_words() { return kCategories; }
Words shop_names() { return kShopNames; }
Words brands() { return kBrands; }
Words adjectives() { return kAdjectives; }
Words colours() { return kColours; }
Words first_names() { return kFirstNames; }
Words plain_words() { return kPlainWords; }
std::span<const TopicWords> topic_words() { return kTopics; }

std::string make_code(Random& random, int32_t digits) {
  constexpr std::string_view kLetters = "BCDFGHJKLMNPRSTVWXZ";
  std::string code;
  for (int i = 0; i < 2; ++i) code += kLetters[random.below(kLetters.size())];
  code += '-';
  for (int32_t i = 0; i < digits; ++i) code += static_cast<char>('0' + random.below(10));
  return code;
}

std::string amount(int32_t hundredths) {
  const int32_t rest = hundredths % 100;
  return std::to_string(hundredths / 100) + (rest < 10 ? ".0" : ".") + std::to_string(rest) +
         " crowns";
}

std::string make_value(ValueKind kind, Random& random) {
  switch (kind) {
    case kCode:
      return make_code(random, 5);
    case kDays:
      return std::to_string(random.between(11, 98)) + " days";
    case kAmount:
      return amount(random.between(21, 199) * 5);
    case kCity:
      return std::string(random.pick(kCities));
    case kWeekday:
      return std::string(random.pick(kWeekdays));
    case kPerson:
      return person(random);
    case kPhrase: {
      const std::string first(random.pick(kPlainWords));
      return first + " " + std::string(random.pick(kPlainWords));
    }
  }
  return {};
}

std::string noise_paragraph(Random& random) { return sentences(3 + random.below(2), random); }

std::string noise_sentences(Random& random) { return sentences(2, random); }

std::string review(Random& random, std::string_view noun) {
  std::string text = person(random) + " gave " + std::to_string(random.between(1, 5)) + " stars: ";
  const size_t first = random.below(kOpinions.size());
  for (size_t i = 0; i < 3; ++i) {
    for (const char c : kOpinions[(first + 3 * i) % kOpinions.size()]) {
      if (c == '%') {
        text += noun;
      } else {
        text += c;
      }
    }
    text += ' ';
  }
  return text + sentences(1, random);
}

}  // namespace kvasir::eval::agent
