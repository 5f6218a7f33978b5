// phidias logits: the numbers themselves, for comparisons.
#include <algorithm>
#include <cmath>

#include "commands.h"
#include "images.h"
#include "input_options.h"
#include "interrupt.h"
#include "phidias/tensors.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

struct LogitsArguments {
  RunOptions run;
  InputOptions input;
  ImageArguments images;
  uint32_t generate = 0;
  uint32_t chunk = 0;
  std::string batch_with;
  std::string output;
};

// One sequence on its way through the steps.
struct Stream {
  std::vector<TokenId> prompt;
  SequenceId sequence = 0;
  size_t fed = 0;
  TokenId next = 0;  // greedy, once the prompt is through
};

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<int> logits(const LogitsArguments& arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return policy.error();
  install_interrupt_handler();
  const auto images = arguments.images.encode(**engine);
  if (!images.ok()) {
    if (images.error().code == Code::kCancelled) return kExitInterrupted;
    return images.error();
  }
  std::vector<Stream> streams(1);
  {
    auto ids = arguments.input.read_ids((*engine)->model().tokenizer().get(), *images);
    if (!ids.ok()) return std::move(ids).error();
    if (ids->empty())
      return Error{Code::kInvalidArgument, "there are no tokens", {{}, {}, "--ids"}};
    streams.front().prompt = std::move(*ids);
  }
  for (size_t at = 0; at < arguments.batch_with.size();) {
    const size_t end = std::min(arguments.batch_with.find(';', at), arguments.batch_with.size());
    auto ids = parse_ids(arguments.batch_with.substr(at, end - at), "--batch-with");
    if (!ids.ok()) return std::move(ids).error();
    if (!ids->empty())
      streams.push_back({.prompt = std::move(*ids), .sequence = 0, .fed = 0, .next = 0});
    at = end + 1;
  }
  for (Stream& stream : streams) {
    stream.sequence = (*engine)->open({.rope_switch = *policy,
                                       .prompt_tokens = static_cast<uint32_t>(stream.prompt.size()),
                                       .images = *images});
  }
  const size_t vocab = (*engine)->vocab();
  const size_t length = streams.front().prompt.size();
  std::vector<float> all(length * vocab);
  std::vector<int64_t> tokens;
  std::vector<float> step_logits;

  // Each step: the next chunk of every prompt that has one, the next greedy token of every other
  // sequence.
  auto step = [&]() -> Status {
    std::vector<Row> rows;
    std::vector<size_t> owner;
    std::vector<size_t> position;
    for (size_t s = 0; s < streams.size(); ++s) {
      Stream& stream = streams[s];
      auto add = [&](TokenId token, bool wants) {
        rows.push_back({token, stream.sequence, static_cast<uint32_t>(stream.fed), wants});
        owner.push_back(s);
        position.push_back(stream.fed++);
      };
      if (stream.fed >= stream.prompt.size()) {
        if (stream.fed < (*engine)->context()) add(stream.next, true);
        continue;
      }
      const size_t chunk = arguments.chunk == 0 ? stream.prompt.size() : arguments.chunk;
      const size_t end = std::min(stream.fed + chunk, stream.prompt.size());
      while (stream.fed < end)
        add(stream.prompt[stream.fed], s == 0 || stream.fed + 1 == stream.prompt.size());
    }
    return (*engine)->step(rows, [&](size_t row, std::span<const float> values) {
      Stream& stream = streams[owner[row]];
      if (position[row] + 1 >= stream.prompt.size()) stream.next = best(values);
      if (owner[row] != 0) return;
      if (position[row] < length)
        std::copy(values.begin(), values.end(),
                  all.begin() + static_cast<ptrdiff_t>(position[row] * vocab));
      if (position[row] + 1 >= length && tokens.size() < arguments.generate) {
        tokens.push_back(stream.next);
        step_logits.insert(step_logits.end(), values.begin(), values.end());
      }
    });
  };
  while (streams.front().fed < length || tokens.size() < arguments.generate) {
    if (streams.front().fed >= (*engine)->context()) {
      return Error{Code::kCapacityExceeded,
                   "the context of " + std::to_string((*engine)->context()) + " positions is full",
                   {{}, {}, "--generate"}};
    }
    const Status status = step();
    if (!status.ok()) return status.error();
  }

  std::vector<NamedTensor> tensors{{"logits", TensorType::kF32, {1, length, vocab}, all.data()}};
  if (arguments.generate > 0) {
    tensors.push_back({"tokens", TensorType::kI64, {tokens.size()}, tokens.data()});
    tensors.push_back(
        {"step_logits", TensorType::kF32, {tokens.size(), vocab}, step_logits.data()});
  }
  const Status saved = save_tensors(arguments.output, tensors);
  if (!saved.ok()) return saved.error();
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_logits(CommandOptions& command) {
  auto arguments = std::make_shared<LogitsArguments>();
  arguments->run.declare(command);
  arguments->input.declare(command);
  arguments->images.declare(command);
  declare_steps(command, arguments->generate, arguments->chunk);
  command.add_option(
      "--batch-with", arguments->batch_with,
      "IDS;IDS: run these sequences in the same steps; changes no bit of the output");
  command
      .add_option("-o,--output", arguments->output,
                  "The safetensors file to write: logits [1, seq, vocab], tokens, step_logits")
      .required();
  return [arguments] { return logits(*arguments); };
}

}  // namespace phidias::cli
