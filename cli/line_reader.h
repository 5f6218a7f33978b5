// Lines that a user types, with editing and history on a terminal; plain lines elsewhere.
#pragma once

#include <string>

using EditLine = struct editline;
using History = struct history;

namespace phidias::cli {

class LineReader {
 public:
  explicit LineReader(bool interactive);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Outcome { kLine, kEnd, kInterrupted };
  //   continued  the line belongs to the one before, which the prompt shows
  Outcome read(std::string& line, bool continued = false);

 private:
  bool interactive_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  std::string history_file_;
};

}  // namespace phidias::cli
