#include "line_reader.h"

#include <histedit.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "interrupt.h"

namespace phidias::cli {
namespace {

const char* current_prompt = "> ";

char* prompt(EditLine*) { return const_cast<char*>(current_prompt); }

// Where the lines of earlier sessions are kept; empty where there is no place.
std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state != '\0')
    folder = state;
  else if (home != nullptr && *home != '\0')
    folder = std::filesystem::path(home) / ".local/state";
  else
    return {};
  std::error_code failure;
  std::filesystem::create_directories(folder / "phidias", failure);
  return failure ? std::string() : (folder / "phidias" / "history").string();
}

}  // namespace

LineReader::LineReader(bool interactive) : interactive_(interactive) {
  if (!interactive_) return;
  editor_ = el_init("phidias", stdin, stdout, stderr);
  history_ = history_init();
  if (editor_ == nullptr || history_ == nullptr) {
    interactive_ = false;
    return;
  }
  HistEvent event;
  history(history_, &event, H_SETSIZE, 1000);
  history(history_, &event, H_SETUNIQUE, 1);
  history_file_ = history_path();
  if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
  el_set(editor_, EL_PROMPT, &prompt);
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_SIGNAL, 0);
  el_set(editor_, EL_HIST, history, history_);
  el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(editor_, nullptr);
}

LineReader::~LineReader() {
  if (history_ != nullptr) {
    HistEvent event;
    if (!history_file_.empty()) history(history_, &event, H_SAVE, history_file_.c_str());
    history_end(history_);
  }
  if (editor_ != nullptr) el_end(editor_);
}

LineReader::Outcome LineReader::read(std::string& line, bool continued) {
  if (!interactive_) return std::getline(std::cin, line) ? Outcome::kLine : Outcome::kEnd;
  current_prompt = continued ? "... " : "> ";
  int count = 0;
  const char* text = el_gets(editor_, &count);
  if (interrupted()) {
    clear_interrupt();
    std::printf("\n");
    return Outcome::kInterrupted;
  }
  if (text == nullptr || count <= 0) return Outcome::kEnd;
  line.assign(text, static_cast<size_t>(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
  }
  return Outcome::kLine;
}

}  // namespace phidias::cli
