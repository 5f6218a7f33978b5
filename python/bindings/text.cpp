// Tokenizers and chat templates.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "phidias/chat.h"
#include "phidias/tokenizer.h"

namespace phidias::python {
namespace {

using SharedTokenizer = std::shared_ptr<const Tokenizer>;
using SharedTemplate = std::shared_ptr<const ChatTemplate>;
using Tokens = std::vector<std::pair<std::string, std::string>>;
using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;

// A stream that keeps its tokenizer alive.
struct OwningDecodeStream {
  SharedTokenizer tokenizer;
  DecodeStream stream;
};

void bind_tokenizer(nb::module_& module) {
  nb::class_<OwningDecodeStream>(
      module, "DecodeStream",
      "Decoding one id at a time: what push() returned, joined, then flush(), is the text. No part "
      "ends inside a character. For one answer; not to be shared between threads.")
      .def(
          "push", [](OwningDecodeStream& self, TokenId id) { return self.stream.push(id); },
          nb::arg("id"), "The text that this id completes; may be empty.")
      .def(
          "flush", [](OwningDecodeStream& self) { return self.stream.flush(); },
          "What is still held back.");

  nb::class_<Tokenizer>(
      module, "Tokenizer",
      "Text to token ids and back: exactly the ids of the checkpoint's own tokenizer. Immutable, "
      "and safe to share between threads.")
      .def_static(
          "load", [](const std::filesystem::path& path) { return unwrap(Tokenizer::load(path)); },
          nb::arg("path"), ReleaseGil(),
          nb::sig("def load(path: str | os.PathLike[str]) -> Tokenizer"),
          "From a Hugging Face folder or a GGUF file; neither needs weights.")
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, bool add_special, bool markers,
             std::optional<std::string> guard) {
            const char32_t code_point = guard ? code_point_of(*guard) : 0;
            const nb::gil_scoped_release release;
            return self.encode(
                text, {.add_special = add_special, .markers = markers, .guard = code_point});
          },
          nb::arg("text"), nb::kw_only(), nb::arg("add_special") = true, nb::arg("markers") = true,
          nb::arg("guard").none() = nb::none(),
          "The ids of a text. add_special puts in front (and behind) what the tokenizer's files "
          "say belongs there; markers=False leaves markers such as <|end|> that the text spells "
          "out ordinary text; guard is a code point put inside markers that must stay text (see "
          "guard_markers).")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<TokenId>& ids, bool skip_special) {
            const nb::gil_scoped_release release;
            return self.decode(ids, skip_special);
          },
          nb::arg("ids"), nb::kw_only(), nb::arg("skip_special") = false,
          "The text of ids. Ids outside the vocabulary decode to nothing.")
      .def(
          "decode_stream",
          [](const SharedTokenizer& self, bool skip_special) {
            return new OwningDecodeStream{self, DecodeStream(*self, skip_special)};
          },
          nb::kw_only(), nb::arg("skip_special") = false, nb::rv_policy::take_ownership,
          "A decoder that takes one id at a time.")
      .def(
          "token_bytes",
          [](const Tokenizer& self, TokenId id) {
            const std::string bytes = self.token_bytes(id);
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("id"), "The bytes that an id stands for: of byte tokens, a part of a character.")
      .def("find", &Tokenizer::find, nb::arg("token_text"),
           "The id of the token spelled exactly so, or None.")
      .def("is_special", &Tokenizer::is_special, nb::arg("id"),
           "Whether decode(skip_special=True) leaves this id out.")
      .def("__repr__",
           [](const Tokenizer& self) {
             return "Tokenizer(" + std::to_string(self.size()) + " ids)";
           })
      .def("__len__", &Tokenizer::size, "The highest id + 1.")
      .def_prop_ro("bos_id", &Tokenizer::bos, "The id that begins a text, or None.")
      .def_prop_ro("eos_id", &Tokenizer::eos, "The id that ends a text, or None.")
      .def_prop_ro("pad_id", &Tokenizer::pad, "The id that fills up batches elsewhere, or None.")
      .def_prop_ro("adds_bos", &Tokenizer::adds_bos,
                   "Whether encode(add_special=True) begins with bos_id.")
      .def_prop_ro("stop_ids", &Tokenizer::stop_ids, "Ids that end a turn, ascending.")
      .def_prop_ro("chat_template_source", &Tokenizer::chat_template,
                   "The Jinja template in the tokenizer's files, or None.")
      .def_prop_ro("template_tokens", &Tokenizer::template_tokens,
                   "Pairs such as ('bos_token', '<s>') that templates are given.")
      .def(
          "guard_markers",
          [](const Tokenizer& self, const std::string& text, const std::string& guard) {
            return self.guard_markers(text, code_point_of(guard));
          },
          nb::arg("text"), nb::arg("guard"),
          "The text with the guard inside each marker that it spells out; encode() with the same "
          "guard then takes them as ordinary text.");
}

void bind_templates(nb::module_& module) {
  nb::class_<ChatTemplate>(
      module, "ChatTemplate",
      "A Jinja chat template. It may be hostile: whatever it tries ends with an error after "
      "bounded work. Immutable, and safe to share between threads.")
      .def_static(
          "parse", [](const std::string& source) { return unwrap(ChatTemplate::parse(source)); },
          nb::arg("source"), "From Jinja source. Errors name the line, in Jinja's own words.")
      .def_static(
          "builtin", [](const std::string& name) { return unwrap(ChatTemplate::builtin(name)); },
          nb::arg("name"), "One of the family's templates, by one of builtin_names().")
      .def_static("builtin_names", &ChatTemplate::builtin_names, "The names that builtin() knows.")
      .def(
          "render_json",
          [](const ChatTemplate& self, const std::string& request, const Tokens& tokens) {
            return unwrap(self.render_json(request, tokens));
          },
          nb::arg("request"), nb::arg("tokens") = Tokens{}, ReleaseGil(),
          "The prompt of a JSON request: messages, tools, add_generation_prompt, "
          "continue_final_message, further variables.")
      .def(
          "untraced_json",
          [](const ChatTemplate& self, const std::string& request, const Tokens& tokens) {
            return self.untraced_messages_json(request, tokens);
          },
          nb::arg("request"), nb::arg("tokens") = Tokens{}, ReleaseGil(),
          "Indices of the messages of such a request that leave no trace in the prompt.")
      .def_prop_ro("source", &ChatTemplate::source, "The Jinja source.");
}

}  // namespace

char32_t code_point_of(const std::string& text) {
  const nb::str object(text.c_str(), text.size());
  if (PyUnicode_GetLength(object.ptr()) != 1) throw nb::value_error("guard is one code point");
  return PyUnicode_ReadChar(object.ptr(), 0);
}

void bind_text(nb::module_& module) {
  bind_tokenizer(module);
  bind_templates(module);
}

}  // namespace phidias::python
