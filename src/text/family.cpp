#include "text/family.h"

#include <algorithm>
#include <array>

namespace phidias {
namespace {

using Texts = std::span<const std::string_view>;

constexpr std::array<std::string_view, 3> kTurnEnds = {"<|end|>", "<|endoftext|>", "<|im_end|>"};

// In Phi-3-mini's vocabulary a new turn's first marker, not a tool's or a role's word: it is on its
// list of stop ids.
constexpr std::array<MarkerAt, 1> kTurnEndsById = {{{"<|assistant|>", 32001}}};

// Phi-3-small skips ids from 100257 on, one below its first named marker.
constexpr std::array<MarkerAt, 1> kShown = {{{"<|dummy_id_2|>", 100256}}};

constexpr std::array<std::string_view, 3> kPhi3Bare = {"<unk>", "<s>", "<|endoftext|>"};
constexpr std::array<std::string_view, 6> kVisionBare = {"<unk>",      "<s>",     "<|endoftext|>",
                                                         "<|system|>", "<|end|>", "<|user|>"};
constexpr std::array<std::string_view, 2> kPhi4MiniBare = {"<|endoftext|>", "<|endofprompt|>"};
constexpr std::array<std::string_view, 5> kPhi4MiniShown = {
    "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_response|>"};

struct MarkerFlags {
  bool lstrip;
  bool rstrip;
  Texts bare;   // neither, in spite of the above
  Texts shown;  // not special
};

constexpr MarkerFlags kPhi3 = {false, true, kPhi3Bare, {}};
// Phi-3-mini's first revision: no marker swallows anything, and this one is special, too.
constexpr std::string_view kFirstRevisionSpecial = "</s>";

struct KnownVocabulary {
  MarkerAt known_by;
  MarkerFlags flags;
};
constexpr std::array<KnownVocabulary, 3> kVocabularies = {{
    {{"<|image|>", 32044}, {false, true, kVisionBare, {}}},
    {{"<|im_sep|>", 100266}, {true, true, {}, {}}},
    {{"<|tool_call|>", 200025}, {false, true, kPhi4MiniBare, kPhi4MiniShown}},
}};

bool contains(Texts texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Whether a template's first output is bos_token: the mark of Phi-3-mini's first revision.
bool begins_with_bos(std::string_view chat_template) {
  constexpr std::string_view kBlank = " \t\r\n";
  constexpr std::string_view kOpen = "{{";
  if (!chat_template.starts_with(kOpen)) return false;
  chat_template.remove_prefix(kOpen.size());
  if (chat_template.starts_with('-')) chat_template.remove_prefix(1);
  const size_t name = chat_template.find_first_not_of(kBlank);
  return name != std::string_view::npos && chat_template.substr(name).starts_with("bos_token");
}

const MarkerFlags* flags_of(const std::vector<AddedToken>& markers) {
  for (const KnownVocabulary& vocabulary : kVocabularies) {
    const bool known = std::any_of(markers.begin(), markers.end(), [&](const AddedToken& marker) {
      return marker.id == vocabulary.known_by.id && marker.text == vocabulary.known_by.text;
    });
    if (known) return &vocabulary.flags;
  }
  return nullptr;
}

}  // namespace

std::span<const std::string_view> turn_end_markers() { return kTurnEnds; }
std::span<const MarkerAt> turn_end_markers_by_id() { return kTurnEndsById; }
std::span<const MarkerAt> markers_shown_by_published_code() { return kShown; }

std::vector<AddedToken> tiktoken_markers() {
  constexpr TokenId kFirst = 100256;
  constexpr TokenId kEnd = 100352;
  constexpr std::array<MarkerAt, 9> kNamed = {{{"<|endoftext|>", 100257},
                                               {"<|fim_prefix|>", 100258},
                                               {"<|fim_middle|>", 100259},
                                               {"<|fim_suffix|>", 100260},
                                               {"<|system|>", 100261},
                                               {"<|user|>", 100262},
                                               {"<|assistant|>", 100263},
                                               {"<|end|>", 100266},
                                               {"<|endofprompt|>", 100276}}};
  // The rest are numbered in order, but for one that was named first.
  constexpr int kOutOfOrder = 2;
  std::vector<AddedToken> markers;
  int next = 0;
  for (TokenId id = kFirst; id < kEnd; ++id) {
    AddedToken marker;
    marker.id = id;
    marker.special = id != kFirst;
    const auto named =
        std::find_if(kNamed.begin(), kNamed.end(), [id](const MarkerAt& m) { return m.id == id; });
    if (named != kNamed.end()) {
      marker.text = named->text;
    } else {
      if (next == kOutOfOrder) ++next;
      const int number = id == kFirst ? kOutOfOrder : next++;
      marker.text = "<|dummy_id_" + std::to_string(number) + "|>";
    }
    markers.push_back(std::move(marker));
  }
  return markers;
}

void restore_marker_flags(std::vector<AddedToken>& markers, const GgufOrigin& origin) {
  const MarkerFlags* flags = flags_of(markers);
  if (flags == nullptr) {
    if (origin.architecture != "phi3" || origin.model != "llama") return;
    if (begins_with_bos(origin.chat_template)) {
      for (AddedToken& marker : markers) {
        if (marker.text == kFirstRevisionSpecial) marker.special = true;
      }
      return;
    }
    flags = &kPhi3;
  }
  for (AddedToken& marker : markers) {
    if (contains(flags->bare, marker.text)) continue;
    marker.lstrip = flags->lstrip;
    marker.rstrip = flags->rstrip;
    if (contains(flags->shown, marker.text)) marker.special = false;
  }
}

}  // namespace phidias
