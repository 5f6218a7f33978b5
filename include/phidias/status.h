// Errors as values. Whatever a user, a file or a socket can cause comes back as an Error with a
// code, a sentence that says what to do, and the place where it happened; nothing here throws or
// aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace phidias {

enum class Code : uint8_t {
  kInvalidArgument,   // an option or a request that cannot be honoured as written
  kNotFound,          // a file, model or name that does not exist
  kCorrupt,           // a file that contradicts itself or its format
  kUnsupported,       // well formed, but not something this build runs
  kOutOfMemory,       // the memory asked for is not to be had
  kCapacityExceeded,  // a stated limit (context, batch, budget) would be passed
  kNonFinite,         // logits that are NaN or infinite
  kCancelled,         // the caller asked for the end
  kIo,                // the operating system refused a read or a write, or the network failed
  kInternal,          // our own mistake
};

// A short stable name such as "invalid_argument", for JSON and logs.
std::string_view code_name(Code code);

// Where an error happened. Empty members are left out of the message.
struct Place {
  std::string file;
  std::optional<uint64_t> offset;  // bytes from the start of the file
  std::string item;                // a tensor's name, a JSON path ("/rope_scaling/type"), an option
};

struct [[nodiscard]] Error {
  Code code = Code::kInternal;
  std::string message;
  Place place;

  // "<file>, <item>, at byte <offset>: <message>": one line for people.
  std::string to_string() const;
};

// A value or an Error. value() on an error and error() on a value are our own mistakes and end the
// process.
template <typename T>
class [[nodiscard]] Result {
 public:
  // `return value;` and `return Error{...};` are the point of both:
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace phidias
